// Planted: the lock has no TTL. When its holder dies, it is held for ever.
import { adapterOf } from './base.mjs';

const GRANT = `if not redis.call('SET', KEYS[1], ARGV[1], 'NX') then return false end
return tostring(redis.call('INCR', KEYS[2]))`;

export default adapterOf('no TTL', {
  grant: ({ redis, lock, token }) => redis.eval(GRANT, 2, lock, `${lock}:fence`, token),
});
