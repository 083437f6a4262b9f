-- Takes back claims that did not get their majority. As a release, but wakes nobody: nothing has become free by it, and whoever waits would only get in the
-- way of the one who tries now.
-- KEYS  the counter of fences, then for each item: plain key, line, info
-- ARGV  for each item the id
-- Gives (without a list when it is only one) for each item 1 (this call removed it), 0 (it was not there) or !<error>
-- @include ../../redis/scripts/clock.lua
-- @include ../../redis/scripts/value.lua
-- @include ../../redis/scripts/entry.lua
-- @include ../../redis/scripts/line.lua
changeKind = 'h'

local function withdraw(key, line, info, id)
  local value = redis.call('GET', key)
  if not value then return 0 end
  local lock = lockOf(key, line, info, value)
  local holder, _, marks = exclusiveIn(value)
  if holder == id then
    if string.sub(marks, 1, 1) == '+' then redis.call('HDEL', info, id) end
    lock.weight, lock.changed = 0, true
    save(lock)
    return 1
  end
  if not lock.many then return 0 end
  expireHolders(lock)
  local score = redis.call('ZSCORE', line, id)
  local entry = score and tonumber(score) < 0 and redis.call('HGET', info, id)
  if entry then
    forget(lock, id)
    lock.weight, lock.changed, lock.shrunk = lock.weight - measure((holderIn(entry))), true, true
  end
  save(lock)
  return entry and 1 or 0
end

local reply = {}
for item = 1, #ARGV do
  local k = item * 3 - 2
  reply[item] = attempt(withdraw, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[item])
end
return #reply == 1 and reply[1] or reply
