-- All that is stored for one lock. The caller decodes it.
-- KEYS  plain key, queue, info
-- Gives the time in µs, the value of the plain key, its time to live, the queue with scores, the
-- info
local time = redis.call('TIME')
local value = redis.call('GET', KEYS[1])
return {
  time[1] .. string.format('%06d', time[2]),
  value,
  redis.call('PTTL', KEYS[1]),
  redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
  redis.call('HGETALL', KEYS[3]),
}
