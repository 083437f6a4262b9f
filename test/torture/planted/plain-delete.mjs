// Planted: release deletes the key, also when it is another's by now.
import { adapterOf, right } from './base.mjs';

// The holder does not notice a loss before it releases: that is what makes the mistake matter.
export default adapterOf('plain delete', {
  drop: async ({ redis, lock }) => await redis.del(lock),
  isHeld: right.isHeld,
});
