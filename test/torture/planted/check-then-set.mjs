// Planted: two commands, one that looks and one that sets. Another may set in between.
import { adapterOf } from './base.mjs';

export default adapterOf('check, then set', {
  grant: async ({ redis, lock, token, ttlMs }) => {
    if ((await redis.get(lock)) !== null) return null;
    await redis.set(lock, token, 'PX', ttlMs);
    return String(await redis.incr(`${lock}:fence`));
  },
});
