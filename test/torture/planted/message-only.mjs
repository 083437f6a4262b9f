// Planted: waiters are woken by a message alone. A lost message, or a holder that died, wakes no waiter.
import { once } from 'node:events';
import { Redis } from 'ioredis';
import { adapterOf, right } from './base.mjs';

let subscriber;

export default adapterOf('messages only', {
  drop: async (claim) => {
    await right.drop(claim);
    await claim.redis.publish(`${claim.lock}:free`, '1');
  },
  pause: async ({ url, lock }) => {
    subscriber ??= new Redis(url, { maxRetriesPerRequest: null }).setMaxListeners(0).on('error', () => {});
    await subscriber.subscribe(`${lock}:free`).catch(() => {});
    for (;;) {
      const [channel] = await once(subscriber, 'message');
      if (channel === `${lock}:free`) return;
    }
  },
});
