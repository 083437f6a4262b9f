import { createLocks } from '../../../src/index.ts';
import { postgresAdvisoryStore } from '../../../src/stores/postgres/advisory/advisory-store.ts';
import { request } from '../../../src/testing/store-case.ts';
import { makePool, type PgLibrary } from '../../support/clients/postgres-pools.ts';

// Ordinary programs: only the pending call of the store keeps them running. Each prints at its end that
// it got there.
const [, , url = '', library = 'pg.Pool', task = '', name = ''] = process.argv;
const store = postgresAdvisoryStore(makePool(library as PgLibrary, url));
const own = request(`${name} own`);

const tasks: Record<string, () => Promise<unknown>> = {
  async twenty() {
    const locks = createLocks(store, { waitMs: 60_000 });
    for (let n = 0; n < 20; n += 1) await locks.mutex(name).run(async () => {});
  },
  claim: () => store.claim(request(name)),
  renew: () => store.renew(own, { ttlMs: 1_000 }),
  release: () => store.release(own),
  read: () => store.read(name),
  evict: () => store.evict(request(name)),
  close: () => store.close(),
};

async function main(): Promise<void> {
  await store.claim(own);
  // The connection is idle by now.
  await new Promise((resolve) => setTimeout(resolve, 50));
  await tasks[task]?.();
  process.stdout.write('done\n');
}

main().catch((error: unknown) => {
  process.stdout.write(`failed: ${error}\n`);
});
