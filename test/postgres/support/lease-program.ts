import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks } from '../../../src/index.ts';
import type { ClaimRequest } from '../../../src/store/store.ts';
import { postgresLeaseStore } from '../../../src/stores/postgres/index.ts';
import { makePool, type PgLibrary } from '../../support/clients/postgres-pools.ts';

// Ordinary programs: nothing but the pending call keeps them running. Each says at the end that it
// got there.
const [, , url = '', library = 'pg.Pool', task = '', name = ''] = process.argv;
const store = postgresLeaseStore(makePool(library as PgLibrary, url));
const locks = createLocks(store, { waitMs: 60_000 });

const request: ClaimRequest = {
  name,
  id: `${process.pid}`,
  mode: { kind: 'exclusive' },
  ttlMs: 60_000,
  wait: true,
  note: '',
  fenceAbove: 0n,
};

/** Reports what happens to it, and waits for a request to continue after it has locked a row. */
async function whenRowIsLocked(): Promise<void> {
  process.stdout.write('ready\n');
  await new Promise((resolve) => process.stdin.once('data', resolve));
  process.stdin.pause();
  process.stdin.unref?.();
}

const tasks: Record<string, () => Promise<unknown>> = {
  async twenty() {
    for (let n = 0; n < 20; n += 1) await locks.mutex(name).run(async () => {});
  },
  async tasks() {
    await Promise.all(
      Array.from({ length: 200 }, () => locks.semaphore(name, { permits: 5 }).run(async () => {})),
    );
  },
  async trying() {
    for (let n = 0; n < 20; n += 1) await (await locks.mutex(name).tryAcquire())?.release();
  },
  async claim() {
    await store.claim({ ...request, name: `${name} warm` });
    await whenRowIsLocked();
    return await store.claim(request);
  },
  async release() {
    await store.claim(request);
    await whenRowIsLocked();
    return await store.release(request);
  },
  async evict() {
    await store.claim(request);
    await whenRowIsLocked();
    return await store.evict(request);
  },
  async read() {
    await store.claim(request);
    // The connection is idle by now.
    await sleep(50);
    return (await store.read(name)).length;
  },
  async close() {
    await store.claim(request);
    await store.close();
  },
};

async function main(): Promise<void> {
  await tasks[task]?.();
  process.stdout.write('done\n');
}

main().catch((error: unknown) => {
  process.stdout.write(`failed: ${error}\n`);
});
