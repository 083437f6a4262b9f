-- Renews holds; never makes one. A hold that has run out stays lost even where nobody has taken it since.
-- KEYS  for each item: plain key, line, info
-- ARGV  for each item <ttl, ms> <1 to replace the note> <id>, then, unless none of them replaces it, the note of each
-- Gives (without a list when it is only one) for each item 1 (held), 0 (not held) or !<error>
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

local function renewMany(key, line, info, value, id, ttl, noted, note)
  local score = redis.call('ZSCORE', line, id)
  local entry = score and redis.call('HGET', info, id)
  if not entry or tonumber(score) >= 0 or tonumber(score) + FAR <= nowMs then return 0 end
  local untilMs = nowMs + tonumber(ttl)
  allowWrites(line)
  redis.call('ZADD', line, digits(untilMs - FAR), id)
  local mode, fence, granted, covered, before = holderIn(entry)
  if noted or untilMs > covered * 1000 then
    covered = cover(untilMs, line, info)
    redis.call('HSET', info, id, holderEntry(mode, fence, granted, covered, noted and note or before))
  end
  local family, weight, ends = manyIn(value)
  if untilMs > ends or tonumber(score) + FAR >= ends then
    ends = lastEnd(line)
    redis.call('SET', key, '~' .. family .. ' ' .. digits(weight) .. ' ' .. digits(ends), 'PX', digits(ends - nowMs))
  end
  return 1
end

local function renew(key, line, info, id, ttl, noted, note)
  local value = redis.call('GET', key)
  if not value then return 0 end
  if exclusiveIn(value) == id then return renewExclusive(key, info, value, id, ttl, noted, note) end
  if manyIn(value) then return renewMany(key, line, info, value, id, ttl, noted, note) end
  return 0
end

local reply, items = {}, #KEYS / 3
for item = 1, items do
  local k = item * 3 - 3
  local ttl, noted, id = string.match(ARGV[item], '^(%d+) (%d) (.+)$')
  local ok, result = pcall(renew, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], id, ttl, noted == '1', ARGV[items + item])
  reply[item] = ok and result or '!' .. (type(result) == 'table' and result.err or tostring(result))
end
return #reply == 1 and reply[1] or reply
