-- Registers an observer: a process that is sent every change of a lock, for a time.
-- KEYS  queue
-- ARGV  channel, time in ms
-- @include clock.lua
-- @include entry.lua
local untilMs = nowMs + tonumber(ARGV[2])
redis.call('ZADD', KEYS[1], digits(FAR + untilMs), ARGV[1])
-- If the queue has only observers, it lives no longer than they need.
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 1
