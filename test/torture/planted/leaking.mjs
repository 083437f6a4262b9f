// Planted: every hold leaves a key in the store, and a listener in the process.
import { adapterOf, right } from './base.mjs';

export default adapterOf('leaks', {
  drop: async (claim) => {
    process.on('SIGUSR2', () => {});
    await claim.redis.set(`${claim.lock}:left:${claim.token}`, '1');
    return await right.drop(claim);
  },
});
