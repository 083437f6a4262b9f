// Planted: a renewal of a lease that has run out acquires it again, and the gap is hidden.
import { adapterOf } from './base.mjs';

const RENEW = `local held = redis.call('GET', KEYS[1])
if held and held ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`;

export default adapterOf('renewal that creates', {
  renew: ({ redis, lock, token, ttlMs }) => redis.eval(RENEW, 1, lock, token, ttlMs),
  // The library only tells of a loss when a renewal was refused.
  isHeld: (hold) => !hold.isOver && !hold.isLost,
});
