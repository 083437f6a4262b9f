-- Asks to be told of every change of a lock, for a while.
-- KEYS  line
-- ARGV  channel, for how long in ms
-- @include clock.lua
-- @include entry.lua
local untilMs = nowMs + tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], digits(FAR + untilMs), ARGV[1])
-- Nothing but observers may be in there, so no more than they need.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
