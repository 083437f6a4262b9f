// Planted: the counter of the fences has a TTL. After a quiet time it begins at 1 again.
import { adapterOf } from './base.mjs';

const GRANT = `if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
local fence = redis.call('INCR', KEYS[2])
redis.call('PEXPIRE', KEYS[2], ARGV[2])
return tostring(fence)`;

export default adapterOf('fence counter with a TTL', {
  grant: ({ redis, lock, token, ttlMs }) => redis.eval(GRANT, 2, lock, `${lock}:fence`, token, ttlMs),
});
