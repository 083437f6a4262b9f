-- Votes of one node of a Redlock: claims without a queue, one attempt for each item. A claim that
-- the node already has is renewed.
-- KEYS  the counter of fences, then for each item: plain key, queue, info
-- ARGV  for each item <x or s> <ttl, ms> <proposed fence> <id>; then, if any item has a note, the
--       note of each
-- Gives for each item one of these, without a list if there is one item only
--       g <fence>               granted; the counter is at this fence or above
--       k <fence>               kept: the node already had this claim
--       w <ms> <kind> <holder>  refused; ms until the first hold ends, or -1 if it does not expire;
--                               kind: x one claim, s several claims, f another program
--       m <mode>                refused: the lock is in use in another mode
--       !<error>                failed
-- All nodes answer with the proposed fence if it is above their counters, and then no second round
-- is needed. The proposal comes from the clock of the client. If that clock is behind by more than
-- this, the node takes its own time instead.
local BEHIND_US = SECOND_US

-- @include ../../redis/scripts/clock.lua
-- @include ../../redis/scripts/value.lua
-- @include ../../redis/scripts/entry.lua
-- @include ../../redis/scripts/queue.lua
-- No claim can be granted because of a vote.
changeKind = 'h'

local function refusal(lock, value)
  local first = lock.many and redis.call('ZRANGE', lock.queue, 0, 0, 'WITHSCORES')[2]
  if first then return 'w ' .. digits(math.max(tonumber(first) + FAR - nowMs, 0)) .. ' s ' end
  local endsMs = digits(redis.call('PTTL', lock.key))
  if lock.many then return 'w ' .. endsMs .. ' s ' end
  if lock.foreign then return 'w ' .. endsMs .. ' f ' .. value end
  return 'w ' .. endsMs .. ' x ' .. exclusiveIn(value)
end

local function vote(key, queue, info, id, mode, ttl, proposed, note)
  local value = redis.call('GET', key)
  if value then
    local holder, fence = exclusiveIn(value)
    if holder == id then
      redis.call('PEXPIRE', key, digits(ttl))
      return 'k ' .. fence
    end
  end
  local lock = lockOf(key, queue, info, value)
  expireHolders(lock)
  local entry = lock.many and redis.call('HGET', info, id)
  if entry and string.sub(entry, 1, 1) == 'h' then return 'k ' .. renewHolder(lock, id, entry, ttl) end
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
