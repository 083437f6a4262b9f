-- Votes of one node of a quorum: claims without a line, one attempt each. A claim that it already has is renewed.
-- KEYS  the counter of fences, then for each item: plain key, line, info
-- ARGV  for each item <x or s> <ttl, ms> <proposed fence> <id>, then, unless none of them has one, the note of each
-- Gives (without a list when it is only one) for each item one of
--       g <fence>               granted; the counter stands at this fence or above
--       k <fence>               kept: it had this claim before
--       w <ms> <kind> <holder>  refused; the first hold ends after so many ms (-1: never by itself); kind: x ours, s several of ours, f foreign
--       m <mode>                refused: the lock is in use in another way
--       !<error>                failed
-- A proposal that is above the counter of every node is what all of them answer, and then no second round is needed. It comes from the clocks of
-- clients; a client whose clock is behind by more than this gets the node's own time instead.
local BEHIND_US = 1000000

-- One exclusive claim without a note, of a lock that nobody holds, is what happens most: it is done before anything else is even defined.
if #KEYS == 4 and #ARGV == 1 and redis.call('EXISTS', KEYS[2], KEYS[3]) == 0 then
  local ttl, proposed, id = string.match(ARGV[1], '^x (%d+) (%d+) (.+)$')
  if ttl then
    local time = redis.call('TIME')
    local nowUs = time[1] * 1000000 + time[2]
    -- At least as `FENCE_MIN` says, where all clocks have forgotten the time.
    local fence = math.max((redis.call('GET', KEYS[1]) or 0) + 1, tonumber(proposed), nowUs - BEHIND_US, 1000000000000000)
    local text = string.format('%.0f', fence)
    local mark = math.abs(fence - nowUs) > 1000000 and '@' .. string.format('%.0f', nowUs) or ''
    redis.call('SET', KEYS[2], text .. mark .. ' ' .. id, 'PX', ttl)
    redis.call('SET', KEYS[1], text)
    return 'g ' .. text
  end
end

-- @include ../../redis/scripts/clock.lua
-- @include ../../redis/scripts/value.lua
-- @include ../../redis/scripts/entry.lua
-- @include ../../redis/scripts/line.lua
-- Nobody becomes free to go on because of a vote.
changeKind = 'h'

local function refusal(lock, value)
  local first = lock.many and redis.call('ZRANGE', lock.line, 0, 0, 'WITHSCORES')[2]
  if first then return 'w ' .. digits(math.max(tonumber(first) + FAR - nowMs, 0)) .. ' s ' end
  local endsMs = digits(redis.call('PTTL', lock.key))
  if lock.many then return 'w ' .. endsMs .. ' s ' end
  if lock.foreign then return 'w ' .. endsMs .. ' f ' .. value end
  return 'w ' .. endsMs .. ' x ' .. exclusiveIn(value)
end

-- A holder among several asks again.
local function keep(lock, id, entry, ttl)
  local mode, fence, granted, _, note = holderIn(entry)
  allowWrites(lock.line)
  redis.call('ZADD', lock.line, digits(nowMs + ttl - FAR), id)
  redis.call('HSET', lock.info, id, holderEntry(mode, fence, granted, math.floor((nowMs + ttl + SPARE_MS) / 1000), note))
  lock.shrunk, lock.uncovered, lock.changed = true, nowMs + ttl, true
  save(lock)
  return 'k ' .. fence
end

local function vote(key, line, info, id, mode, ttl, proposed, note)
  local value = redis.call('GET', key)
  if value then
    local holder, fence = exclusiveIn(value)
    if holder == id then
      redis.call('PEXPIRE', key, digits(ttl))
      return 'k ' .. fence
    end
  end
  local lock = lockOf(key, line, info, value)
  expireHolders(lock)
  local entry = lock.many and redis.call('HGET', info, id)
  if entry and string.sub(entry, 1, 1) == 'h' then return keep(lock, id, entry, ttl) end
  if lock.weight > 0 and not lock.foreign and lock.family ~= 'rw' then
    save(lock)
    return 'm p1/' .. string.sub(lock.family, 2)
  end
  if not fits(lock, mode) then
    save(lock)
    return refusal(lock, value)
  end
  counter(0)
  local fence = math.max(lastFence + 1, proposed, nowUs - BEHIND_US)
  grant(lock, id, mode, ttl, note, fence)
  save(lock)
  return 'g ' .. digits(fence)
end

local reply, items = {}, (#KEYS - 1) / 3
for item = 1, items do
  local k, note = item * 3 - 2, ARGV[items + item] or ''
  local mode, ttl, proposed, id = string.match(ARGV[item], '^(%S+) (%d+) (%d+) (.+)$')
  reply[item] =
    attempt(vote, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], id, mode, tonumber(ttl), tonumber(proposed), note)
end
writeCounter()
return #reply == 1 and reply[1] or reply
