-- Which of the commands that the locks use this user may not run. Changes nothing: the key does not
-- exist, and what is written is removed in the same script.
--
-- KEYS[1]  a key of ours that does not exist
-- ARGV[1]  PUBLISH or SPUBLISH
-- ARGV[2]  a channel of ours without subscribers
-- Returns the names of the commands.
local key = KEYS[1]
local denied = {}

local function may(command, ...)
  local reply = redis.pcall(command, ...)
  local problem = type(reply) == 'table' and reply.err or ''
  local isDenied = problem:find('NOPERM', 1, true)
    or problem:find('user executing the script', 1, true)
    or problem:find('ACL failure', 1, true)
  if isDenied then denied[#denied + 1] = command:lower() end
  return not isDenied
end

may('TIME')
may('GET', key)
may('EXISTS', key)
may('PTTL', key)
may('PEXPIRE', key, 1)
may('SET', key, '', 'XX')
may('ZADD', key, 'XX', 0, 'none')
may('ZREM', key, 'none')
may('ZSCORE', key, 'none')
may('ZRANGE', key, 0, 0)
may('ZRANGEBYSCORE', key, 0, 0)
may('ZREVRANGEBYSCORE', key, 0, 0)
may('ZCOUNT', key, 0, 0)
may('HGET', key, 'none')
may('HGETALL', key)
may('HDEL', key, 'none')
-- HSET cannot be tried without an effect.
if may('DEL', key) and may('HSET', key, 'none', '') then redis.pcall('DEL', key) end
may(ARGV[1], ARGV[2], '')
return denied
