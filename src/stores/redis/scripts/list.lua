-- Tells which of these names are locks with at least one claim.
-- KEYS  for each name: plain key, queue
-- ARGV  1 if every string with the prefix is a lock; otherwise a string of another program counts
--       only if it expires
-- Gives for each name 1 or 0
-- @include clock.lua
-- @include value.lua
local reply = {}
for item = 0, #KEYS / 2 - 1 do
  local key, queue = KEYS[item * 2 + 1], KEYS[item * 2 + 2]
  local value = redis.pcall('GET', key)
  local held = type(value) == 'string'
    and (ARGV[1] == '1' or exclusiveIn(value) or manyIn(value) or redis.call('PTTL', key) > 0)
  reply[item + 1] = (held or redis.call('ZCOUNT', queue, WAITING_MIN, WAITING_MAX) > 0) and 1 or 0
end
return reply
