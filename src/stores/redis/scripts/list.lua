-- Which of these are locks with at least one claim.
-- KEYS  for each candidate: plain key, line
-- ARGV  1 when every string under the prefix is a lock; otherwise a string of another program counts only when it expires
-- Gives for each candidate 1 or 0
-- @include clock.lua
-- @include value.lua
local reply = {}
for item = 0, #KEYS / 2 - 1 do
  local key, line = KEYS[item * 2 + 1], KEYS[item * 2 + 2]
  local value = redis.pcall('GET', key)
  local held = type(value) == 'string'
    and (ARGV[1] == '1' or exclusiveIn(value) or manyIn(value) or redis.call('PTTL', key) > 0)
  reply[item + 1] = (held or redis.call('ZCOUNT', line, WAITING_MIN, WAITING_MAX) > 0) and 1 or 0
end
return reply
