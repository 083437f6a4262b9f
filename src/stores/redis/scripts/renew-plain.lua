-- Renews one exclusive hold by its plain key alone: while a slot is being moved, a node runs no
-- script that names a key which it does not have.
-- KEYS  plain key
-- ARGV  <ttl, ms>, <id>
-- Gives 1 (renewed), 2 (renewed; its note is in the info key), 0 (not held) or - (several holders:
--       all keys are needed)
-- @include clock.lua
-- @include value.lua
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' then return '0' end
if manyIn(value) then return '-' end
local holder, _, marks = exclusiveIn(value)
if holder ~= ARGV[2] then return '0' end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return string.sub(marks, 1, 1) == '+' and '2' or '1'
