// The Lock of npm etcd3. It does not wait, so the adapter asks again; and it does not tell of a loss.
import { setTimeout as sleep } from 'node:timers/promises';
import { Etcd3, EtcdLockFailedError } from 'etcd3';

export default async ({ url }) => {
  const hosts = url.replace('etcd://', '').split(',');
  const client = new Etcd3({ hosts: hosts.map((host) => `http://${host}`) });
  return {
    name: 'etcd3',
    async acquire(name, ttlMs) {
      for (const endMs = performance.now() + 10_000; performance.now() < endMs; await sleep(50)) {
        const lock = client.lock(name).ttl(Math.ceil(ttlMs / 1_000));
        try {
          await lock.acquire();
        } catch (error) {
          if (error instanceof EtcdLockFailedError) continue;
          throw error;
        }
        let isOver = false;
        return {
          isHeld: () => !isOver,
          release: async () => {
            isOver = true;
            await lock.release();
          },
        };
      }
      return null;
    },
    close: async () => client.close(),
  };
};
