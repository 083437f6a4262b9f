// Planted: the renewal continues after the release, and brings the lock back.
import { adapterOf } from './base.mjs';

let count = 0;

export default adapterOf('renewal that outlives the release', {
  renew: ({ redis, lock, token, ttlMs }) => redis.set(lock, token, 'PX', ttlMs).then(() => 1),
  // Every fiftieth renewal forgets to end.
  keepsRenewing: (hold) => {
    count += 1;
    hold.isEndless ??= count % 50 === 0;
    return hold.isEndless || (!hold.isOver && !hold.isLost);
  },
});
