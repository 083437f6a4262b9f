// npm redlock-universal: `using`, which its page recommends, renews the lock and tells of its loss.
import { Redis } from 'ioredis';
import { createLock, createRedlock, IoredisAdapter } from 'redlock-universal';

export default async ({ url }) => {
  const clients = url
    .replace(/^\w+:\/\//, '')
    .split(',')
    .map((address) => new Redis(`redis://${address}`).on('error', () => {}));
  const adapters = clients.map((client) => new IoredisAdapter(client));
  return {
    name: 'redlock-universal',
    acquire: (key, ttl) => {
      const lock =
        adapters.length === 1
          ? createLock({ adapter: adapters[0], key, ttl })
          : createRedlock({ adapters, key, ttl });
      return new Promise((resolve) => {
        let isOver = false;
        let finish = () => {};
        const done = lock.using(async (signal) => {
          const over = new Promise((end) => {
            finish = end;
          });
          resolve({
            isHeld: () => !isOver && !signal.aborted,
            release: async () => {
              isOver = true;
              finish();
              await done;
            },
          });
          await over;
        });
        // Before the section: it gave up. After it: the release failed, which `release` reports.
        done.catch(() => resolve(null));
      });
    },
    close: async () => void clients.map((client) => client.disconnect()),
  };
};
