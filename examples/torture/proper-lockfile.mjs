// npm proper-lockfile next to the file that the SQLite URL names. Its shortest TTL is 2 s in this version.
import { dirname, join } from 'node:path';
import lockfile from 'proper-lockfile';

export default async ({ url }) => {
  const folder = dirname(url.replace('sqlite:', ''));
  return {
    name: 'proper-lockfile',
    async acquire(name, ttlMs) {
      let isCompromised = false;
      let isOver = false;
      const options = {
        stale: ttlMs,
        realpath: false,
        retries: { retries: 100, minTimeout: 50, maxTimeout: 100 },
        onCompromised: () => {
          isCompromised = true;
        },
      };
      try {
        const release = await lockfile.lock(join(folder, name), options);
        return {
          isHeld: () => !isOver && !isCompromised,
          release: async () => {
            isOver = true;
            await release();
          },
        };
      } catch (error) {
        if (error.code === 'ELOCKED') return null;
        throw error;
      }
    },
    close: async () => {},
  };
};
