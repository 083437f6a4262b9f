import { expect, it } from 'vitest';
import { LocalWaiters } from '../../src/stores/mysql/local-waiters.ts';
import type { LockRow, Queued } from '../../src/stores/mysql/lock-row.ts';
import { Poller } from '../../src/stores/mysql/poller.ts';
import { virtualClock } from '../../src/testing/index.ts';

const STORES = 5;
const TURNS = 40;

/** How often five stores with interleaved waiters read a lock that each waiter holds for `turnMs`. */
async function readsPerTurn(turnMs: number): Promise<number> {
  const clock = virtualClock();
  let reads = 0;
  const nowUs = (): number => Math.round(clock.monotonicMs() * 1_000);
  const mode = { kind: 'exclusive' } as const;
  const stores = Array.from({ length: STORES }, () => new LocalWaiters(clock));
  let queue: Queued[] = Array.from({ length: 2 * TURNS }, (_, n) => {
    const store = stores[n % STORES];
    store?.add({ name: 'x', id: `${n}` });
    return { id: `${n}`, mode, tag: store?.tag ?? '', seenAtUs: 0, note: '' };
  });
  let row: LockRow;
  const handOn = (): void => {
    const [next, ...rest] = queue;
    queue = rest;
    const times = { grantedAtUs: nowUs(), expiresAtUs: nowUs() + 60_000_000, ttlMs: 60_000 };
    const holds = [{ id: next?.id ?? '', mode, fence: 1n, note: '', ...times }];
    row = { name: 'x', version: next?.id ?? '', fence: 1n, holds, queue, size: 0, changedAtUs: nowUs() };
  };
  const pollers = stores.map((waiters) => {
    const read = async () => {
      reads += 1;
      const alive = row.queue.map((waiting) => ({ ...waiting, seenAtUs: nowUs() }));
      return [{ row: { ...row, queue: alive }, nowUs: nowUs(), floor: 0n }];
    };
    return new Poller({ clock, waiters, events: () => null, read, keep: () => {} });
  });
  handOn();
  for (const poller of pollers)
    poller.open({ onUp: () => {}, onDown: () => {}, onEnd: () => {}, onMessage: () => {} });
  const advance = async (): Promise<void> => {
    for (let ms = 0; ms < turnMs; ms += 1) await clock.advance(1);
    handOn();
  };
  // After some turns each store knows how long a turn is.
  for (let turn = 0; turn < 10; turn += 1) await advance();
  const before = reads;
  for (let turn = 10; turn < TURNS; turn += 1) await advance();
  for (const poller of pollers) poller.close();
  return (reads - before) / (TURNS - 10);
}

it('stores that are not next read the lock seldom while it is handed on', async () => {
  // All of them every 20 ms, for 300 ms after each handoff, would be 25, 62 and 100 reads.
  expect(await readsPerTurn(100)).toBeLessThan(15);
  expect(await readsPerTurn(250)).toBeLessThan(20);
  expect(await readsPerTurn(1_000)).toBeLessThan(50);
});
