-- The second round for a fence: raises the fences of claims that this node still holds, and its
-- counter with them.
-- KEYS  the counter of fences, then for each item: plain key, queue, info
-- ARGV  for each item <fence> <id>
-- Gives for each item the fence that the claim has now, 0 (not held) or !<error>; without a list if
--       there is one item only
-- @include ../../redis/scripts/clock.lua
-- @include ../../redis/scripts/value.lua
-- @include ../../redis/scripts/entry.lua
-- @include ../../redis/scripts/queue.lua

local function mergeExclusive(key, value, id, fence)
  local _, own, marks = exclusiveIn(value)
  if fence <= tonumber(own) then return own end
  local isApart = math.abs(fence - nowUs) > FENCE_APART_US
  local at = string.match(marks, '@%d+') or (isApart and '@' .. digits(nowUs)) or ''
  local plus = string.sub(marks, 1, 1) == '+' and '+' or ''
  redis.call('SET', key, digits(fence) .. plus .. at .. ' ' .. id, 'KEEPTTL')
  counter(fence)
  return digits(fence)
end

-- Holders that share a lock must not get the same fence, so the fence is above every fence that
-- this node has given.
local function mergeShared(queue, info, id, fence)
  local score = redis.call('ZSCORE', queue, id)
  local entry = score and redis.call('HGET', info, id)
  if not entry or tonumber(score) >= 0 or tonumber(score) + FAR <= nowMs then return '0' end
  local mode, own, granted, covered, note = holderIn(entry)
  if fence <= tonumber(own) then return own end
  counter(0)
  fence = math.max(fence, lastFence + 1)
  redis.call('HSET', info, id, holderEntry(mode, digits(fence), granted, covered, note))
  counter(fence)
  return digits(fence)
end

local function merge(key, queue, info, id, fence)
  local value = redis.call('GET', key)
  if not value then return '0' end
  if exclusiveIn(value) == id then return mergeExclusive(key, value, id, fence) end
  if manyIn(value) then return mergeShared(queue, info, id, fence) end
  return '0'
end

local reply, items = {}, (#KEYS - 1) / 3
for item = 1, items do
  local k = item * 3 - 2
  local fence, id = string.match(ARGV[item], '^(%d+) (.+)$')
  reply[item] = attempt(merge, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], id, tonumber(fence))
end
writeCounter()
return #reply == 1 and reply[1] or reply
