-- Gives up holds and places in line, and hands what becomes free to the next in line.
-- KEYS  the counter of fences, then for each item: plain key, line, info
-- ARGV  for one item <id>, <1 to take a foreign lock away too>; for several, for each item <1 to take a foreign lock away too><id>
-- Gives (without a list when it is only one) for each item 1 (this call removed it), 2 (it did, and somebody was granted who has to
-- confirm it), 0 (it was not there) or !<error>
-- One exclusive hold without a note is what happens most, and with it a lock that nobody waits for, or an exclusive claim without a
-- note next in line. Both are done before anything else is even defined, since that alone takes longer.
local one = not KEYS[5] and ARGV[1]
if one then
  local value = redis.call('GET', KEYS[2])
  if not value then
    if redis.call('EXISTS', KEYS[3]) == 0 then return 0 end
  -- Sixteen digits of fence and a space stand before the id; anything else there is another program's.
  elseif string.sub(value, 17, 17) == ' ' and string.match(value, '^%d+ (.+)$') == one then
    if redis.call('EXISTS', KEYS[3]) == 0 then return redis.call('DEL', KEYS[2]) end
    local next = redis.call('ZRANGEBYSCORE', KEYS[3], '1', '(4503599627370496', 'LIMIT', 0, 1)[1]
    local entry = next and redis.call('HGET', KEYS[4], next)
    local ttl, ends, channel = string.match(entry or '', '^w x (%d+) (%d+) %d+ ([^- ]%S*) $')
    if ttl and redis.call('ZCOUNT', KEYS[3], '(4503599627370496', '+inf') == 0 then
      local time = redis.call('TIME')
      local text = time[1] .. string.sub('00000' .. time[2], -6)
      local nowMs = math.floor(text / 1000)
      -- As in `settle`: only who has just asked is told everything and needs no confirming.
      if ends - math.max(ttl, 120000) + 1000 >= nowMs and #text == 16 and (redis.call('GET', KEYS[1]) or '0') < text then
        local message = 'g\n' .. KEYS[2] .. '\n' .. next .. '\n' .. text .. '\n' .. string.format('%.0f', nowMs + ttl)
        local publish = string.sub(KEYS[1], -1) == 'd' and 'SPUBLISH' or 'PUBLISH'
        -- Removing comes first: nobody may be told of a grant that the server then refuses to write. What it lets us remove, also when memory is
        -- full, it lets us write after that.
        redis.call('ZREM', KEYS[3], next)
        redis.call('HDEL', KEYS[4], next)
        if redis.call(publish, string.sub(KEYS[1], 1, -6) .. 'wake:' .. channel, message) > 0 then
          redis.call('SET', KEYS[1], text)
          redis.call('SET', KEYS[2], text .. ' ' .. next, 'PX', ttl)
          return 1
        end
      end
    end
  end
end

-- In a function, since the locals of a script take time to make room for even where it ends before them.
local function everything()
-- @include clock.lua
-- @include value.lua
-- @include entry.lua
-- @include line.lua

local function releaseExclusive(key, line, info, id, marks)
  if string.sub(marks, 1, 1) == '+' then redis.call('HDEL', info, id) end
  if redis.call('EXISTS', line) == 0 then
    redis.call('DEL', key)
    return 1
  end
  local lock = { key = key, line = line, info = info, weight = 0, ends = 0, exists = true, changed = true }
  settle(lock)
  save(lock)
  return lock.handed and 2 or 1
end

-- Also when there is nothing to give up: whoever fits now is let in, so that a hold that ran out unseen keeps nobody waiting.
local function leaveLine(lock, id)
  expireHolders(lock)
  local score = tonumber(redis.call('ZSCORE', lock.line, id) or FAR)
  local entry = score < FAR and redis.call('HGET', lock.info, id)
  if entry then
    forget(lock, id)
    lock.changed = true
    if score < 0 then lock.weight, lock.shrunk = lock.weight - measure((holderIn(entry))), true end
  end
  settle(lock)
  save(lock)
  if not entry then return 0 end
  return lock.handed and 2 or 1
end

local function release(key, line, info, id, evict)
  local value = redis.call('GET', key)
  if value then
    local holder, _, marks = exclusiveIn(value)
    if holder == id then return releaseExclusive(key, line, info, id, marks) end
    if evict and value == id then return releaseExclusive(key, line, info, id, '') end
  end
  if redis.call('EXISTS', line) == 0 then return 0 end
  return leaveLine(lockOf(key, line, info, value), id)
end

-- The common case again, as at the top.
local function leave(k, id, evict)
  local key, line = KEYS[k + 1], KEYS[k + 2]
  local value = redis.pcall('GET', key)
  if type(value) == 'string' and string.sub(value, 17, 17) == ' ' and string.match(value, '^%d+ (.+)$') == id
    and redis.call('EXISTS', line) == 0 then
    return redis.call('DEL', key)
  end
  return attempt(release, key, line, KEYS[k + 3], id, evict == '1')
end

local reply
if one then
  reply = leave(1, one, ARGV[2])
else
  reply = {}
  for item, arg in ipairs(ARGV) do reply[item] = leave(item * 3 - 2, string.sub(arg, 2), string.sub(arg, 1, 1)) end
end
writeCounter()
return reply
end
return everything()
