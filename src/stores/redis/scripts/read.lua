-- Everything that is known of one lock. The reader decodes it.
-- KEYS  plain key, line, info
-- Gives the time in us, the plain key's value, its time to live, the line with scores, the info
local time = redis.call('TIME')
local value = redis.call('GET', KEYS[1])
return {
  time[1] .. string.format('%06d', time[2]),
  value,
  redis.call('PTTL', KEYS[1]),
  redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES'),
  redis.call('HGETALL', KEYS[3]),
}
