-- Gives up holds and places in line, and hands what becomes free to the next in line.
-- KEYS  the counter of fences, then for each item: plain key, line, info
-- ARGV  base of channels, then for each item: id, 1 to take a foreign lock away too
-- Gives for each item 1 (this call removed it), 0 (it was not there) or !<error>
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
  return 1
end

local function leaveLine(lock, id)
  local score = tonumber(redis.call('ZSCORE', lock.line, id) or FAR)
  if score >= FAR or (score < 0 and not lock.many) then return 0 end
  expireHolders(lock)
  local entry = redis.call('HGET', lock.info, id)
  if entry then
    forget(lock, id)
    lock.changed = true
    if score < 0 then lock.weight = lock.weight - measure((holderIn(entry))) end
  end
  -- Also when only a place was given up: those behind it may fit now.
  if not lock.foreign then settle(lock) end
  save(lock)
  return entry and 1 or 0
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

local reply = {}
for item = 0, (#KEYS - 1) / 3 - 1 do
  local k, a = item * 3 + 1, item * 2 + 1
  reply[item + 1] = attempt(release, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], ARGV[a + 2] == '1')
end
writeCounter()
return reply
