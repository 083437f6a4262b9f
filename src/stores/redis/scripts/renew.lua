-- Renews holds; never makes one. A hold that has expired stays lost, even if the lock is free.
-- KEYS  for each item: plain key, queue, info
-- ARGV  for each item <ttl, ms> <1 to replace the note> <id>; then, if any item replaces its note,
--       the note of each item, and at the end PUBLISH, or SPUBLISH in a Cluster
-- Gives for each item 1 (held), 0 (not held) or !<error>; without a list if there is one item only
-- @include clock.lua
-- @include value.lua
-- @include entry.lua

local function renewExclusive(key, info, value, id, ttl, noted, note)
  local _, fence, marks = exclusiveIn(value)
  if not noted then
    redis.call('PEXPIRE', key, ttl)
    if string.sub(marks, 1, 1) == '+' then cover(nowMs + tonumber(ttl), info) end
    return 1
  end
  local granted = string.match(marks, '@(%d+)') or fence
  if note == '' then redis.call('HDEL', info, id) end
  local at = string.match(marks, '@%d+') or ''
  redis.call('SET', key, fence .. (note == '' and '' or '+') .. at .. ' ' .. id, 'PX', ttl)
  if note ~= '' then
    redis.call('HSET', info, id, holderEntry('x', fence, granted, 0, note))
    cover(nowMs + tonumber(ttl), info)
  end
  return 1
end

local function renewMany(key, queue, info, value, id, ttl, noted, note)
  local score = redis.pcall('ZSCORE', queue, id)
  local entry = redis.pcall('HGET', info, id)
  if type(score) ~= 'string' or type(entry) ~= 'string' then return 0 end
  if tonumber(score) >= 0 or tonumber(score) + FAR <= nowMs then return 0 end
  local untilMs = nowMs + tonumber(ttl)
  allowWrites(queue)
  redis.call('ZADD', queue, digits(untilMs - FAR), id)
  local mode, fence, granted, covered, before = holderIn(entry)
  if noted or untilMs > covered * 1000 then
    covered = cover(untilMs, queue, info)
    redis.call('HSET', info, id, holderEntry(mode, fence, granted, covered, noted and note or before))
  end
  local family, weight, ends = manyIn(value)
  if untilMs > ends or tonumber(score) + FAR >= ends then
    ends = lastEnd(queue)
    local text = '~' .. family .. ' ' .. digits(weight) .. ' ' .. digits(ends)
    redis.call('SET', key, text, 'PX', digits(ends - nowMs))
  end
  return 1
end

-- A waiter may wait for the note, for example for the one that says that a run-once is done. Each
-- waiter is told to ask again, and each observer that the lock has changed.
local function wakeWaiters(key, queue, info)
  local publish = ARGV[#ARGV]
  -- A name holds no control character: what ends in the last one is the part before the name.
  local channelBase = string.match(queue, '^(.*\1)') .. 'wake:'
  local waiting = redis.pcall('ZRANGEBYSCORE', queue, WAITING_MIN, WAITING_MAX)
  if waiting.err then return end
  for _, id in ipairs(waiting) do
    local entry = redis.call('HGET', info, id)
    local w = entry and waiterIn(entry)
    if w and w.channel ~= '-' then
      redis.call(publish, channelBase .. w.channel, 'g\n' .. key .. '\n' .. id)
    end
  end
  for _, channel in ipairs(redis.call('ZRANGEBYSCORE', queue, OBSERVING_MIN, '+inf')) do
    redis.call(publish, channelBase .. channel, 'o\n' .. key)
  end
end

-- A key that another program has replaced by one of another type is not ours any more.
local function renew(key, queue, info, id, ttl, noted, note)
  local value = redis.pcall('GET', key)
  if type(value) ~= 'string' then return 0 end
  local held = 0
  if exclusiveIn(value) == id then
    held = renewExclusive(key, info, value, id, ttl, noted, note)
  elseif manyIn(value) then
    held = renewMany(key, queue, info, value, id, ttl, noted, note)
  end
  if held == 1 and noted then wakeWaiters(key, queue, info) end
  return held
end

local reply, items = {}, #KEYS / 3
for item = 1, items do
  local k = item * 3 - 3
  local ttl, noted, id = string.match(ARGV[item], '^(%d+) (%d) (.+)$')
  local note = ARGV[items + item]
  local ok, result = pcall(renew, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], id, ttl, noted == '1', note)
  reply[item] = ok and result or '!' .. (type(result) == 'table' and result.err or tostring(result))
end
return #reply == 1 and reply[1] or reply
