/** The program of a user. It is never run, but it must compile. It uses the documented surface. */
import {
  AcquireTimeoutError,
  type ClaimView,
  createLocks,
  HoldfastError,
  HoldLostError,
  type Locks,
  memoryStore,
  openLocks,
} from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { faultyStore, nthCall, storeCases, virtualClock } from '../../src/testing/index.ts';

export async function holding(locks: Locks): Promise<string> {
  const length: number = await locks.withLock('a', (hold) => hold.name.length, {
    ttlMs: 5_000,
    waitMs: Infinity,
  });
  const mutex = locks.mutex('a', {
    metadata: { job: 'import', tries: [1, 2], nested: { ok: true, none: null } },
  });
  {
    await using hold = await mutex.acquire({ signal: AbortSignal.timeout(100) });
    await hold.extend();
    hold.assertHeld();
    hold.signal.throwIfAborted();
  }
  const maybe = await mutex.tryAcquire({ reentrant: true });
  // @ts-expect-error: one try does not wait, so it has no waitMs.
  await mutex.tryAcquire({ waitMs: 5 });
  // @ts-expect-error: it may be null.
  maybe.release();
  const { read, write } = locks.readWriteLock('b');
  await read.run(async () => write.tryAcquire());
  const both = await locks.all(['a', 'b']).acquire();
  // @ts-expect-error: several locks have no common fence.
  await locks.all(['a', 'b']).run((hold) => hold.fence);
  return `${length} ${both.fenceOf('a') > 1n} ${(await maybe?.release()) ?? false}`;
}

export async function counting(locks: Locks): Promise<number> {
  const semaphore = locks.semaphore('s', { permits: 10 });
  await (await semaphore.acquire({ permits: 3, waitMs: 0 })).release();
  // @ts-expect-error: a semaphore needs a number of permits.
  locks.semaphore('s', {});
  const limit = locks.rateLimit('r', { permits: 100, perMs: 60_000 });
  await limit.take();
  const taken: boolean = await limit.tryTake(5);
  const outcome = await locks.once('import', async () => 42, { rememberMs: 1_000 });
  if (outcome.ran) return outcome.value + Number(taken);
  return outcome.why === 'done' ? 1 : 0;
}

export async function leading(locks: Locks): Promise<ClaimView | null> {
  const election = locks.election('leader');
  await using candidate = election.start({
    onElected: async (term) => term.assertHeld(),
    onLost: console.error,
  });
  await election.lead(async (term) => term.extend(1_000), { signal: AbortSignal.abort() });
  for await (const leader of election.observe()) if (leader?.owner === null) break;
  return candidate.isLeader ? await election.leader() : null;
}

export async function seeing(locks: Locks): Promise<ClaimView[]> {
  const stop = locks.on('lost', ({ name, id, owner, how }) => console.log(name, id, owner, how));
  stop();
  const holders: ClaimView[] = (await locks.inspect('a')).holders;
  for await (const { name, waiters } of locks.list('jobs/')) {
    for (const { id } of waiters) await locks.evict(name, { id });
  }
  await locks.releaseAll();
  await locks.close({ drainMs: 0 });
  return holders;
}

export function telling(error: unknown): string {
  if (error instanceof AcquireTimeoutError) return error.holders.map((holder) => holder.owner).join();
  if (error instanceof HoldLostError && error.how === 'expired') return error.lock;
  return error instanceof HoldfastError ? error.code : 'not ours';
}

export async function making(): Promise<Locks[]> {
  const clock = virtualClock();
  const store = faultyStore(memoryStore({ clock }), nthCall(1, 'lose'));
  await clock.advance(storeCases.length);
  return [
    createLocks(store, { clock, owner: 'me' }),
    createLocks(sqliteStore('locks.db')),
    await openLocks('memory:'),
  ];
}
