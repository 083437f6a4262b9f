-- Takes back claims that did not get a majority. It is a release that wakes no waiter: the lock did
-- not become free, and a woken waiter would only disturb the claim that is being made.
-- KEYS  the counter of fences, then for each item: plain key, queue, info
-- ARGV  for each item the id
-- Gives for each item 1 (removed by this call), 0 (not there) or !<error>; without a list if there is
--       one item only
-- @include ../../redis/scripts/clock.lua
-- @include ../../redis/scripts/value.lua
-- @include ../../redis/scripts/entry.lua
-- @include ../../redis/scripts/queue.lua
changeKind = 'h'

local function withdraw(key, queue, info, id)
  local value = redis.call('GET', key)
  if not value then return 0 end
  local lock = lockOf(key, queue, info, value)
  local holder, _, marks = exclusiveIn(value)
  if holder == id then
    if string.sub(marks, 1, 1) == '+' then redis.call('HDEL', info, id) end
    lock.weight, lock.changed = 0, true
    save(lock)
    return 1
  end
  if not lock.many then return 0 end
  expireHolders(lock)
  local score = redis.call('ZSCORE', queue, id)
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
