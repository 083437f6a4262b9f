import { expect, it } from 'vitest';
import type { LockRow, Queued } from '../../src/stores/mysql/lock-row.ts';
import { Poller } from '../../src/stores/mysql/poller.ts';
import { RowQueue } from '../../src/stores/mysql/queue.ts';
import type { SubscriptionEvents } from '../../src/stores/shared/server-queue-store.ts';
import { virtualClock } from '../../src/testing/index.ts';

function eventsOf(isWaiting: (id: string) => boolean): SubscriptionEvents {
  const nothing = (): void => {};
  const others = { onEvicted: nothing, onHandoff: nothing, onPoll: nothing, onGap: nothing };
  return { onGranted: nothing, onChanged: nothing, ...others, isWanted: () => true, isWaiting };
}

const STORES = 5;
const TURNS = 40;

/** How often five stores with interleaved waiters read a lock that each waiter holds for `turnMs`. */
async function readsPerTurn(turnMs: number): Promise<number> {
  const clock = virtualClock();
  let reads = 0;
  const nowUs = (): number => Math.round(clock.monotonicMs() * 1_000);
  const mode = { kind: 'exclusive' } as const;
  let queue: Queued[] = Array.from({ length: 2 * TURNS }, (_, n) => {
    return { id: `${n}`, mode, seenAtUs: 0, note: '' };
  });
  let row: LockRow;
  const handOn = (): void => {
    const [next, ...rest] = queue;
    queue = rest;
    const id = next?.id ?? '';
    const hold = { id, mode, fence: '1', note: '', grantedAtUs: nowUs(), ttlMs: 60_000 };
    const holds = [{ ...hold, expiresAtUs: nowUs() + 60_000_000 }];
    row = { name: 'x', version: id, fence: 1n, floor: 0n, holds, queue, nowUs: nowUs() };
  };
  const pollers = Array.from({ length: STORES }, (_, n) => {
    const isWaiting = (id: string): boolean => Number(id) % STORES === n;
    const look = async () => {
      reads += 1;
      const alive = row.queue.map((waiting) => ({ ...waiting, seenAtUs: nowUs() }));
      const read = { ...row, queue: alive, nowUs: nowUs() };
      poller.onRead(new RowQueue(read, 'next version', isWaiting));
    };
    const poller = new Poller(clock, look);
    poller.events = eventsOf(isWaiting);
    return { poller, look };
  });
  handOn();
  // Each has a waiter, whose claim was the first look.
  for (const { look } of pollers) await look();
  const advance = async (): Promise<void> => {
    for (let ms = 0; ms < turnMs; ms += 1) await clock.advance(1);
    handOn();
  };
  for (let turn = 0; turn < 10; turn += 1) await advance();
  const before = reads;
  for (let turn = 10; turn < TURNS; turn += 1) await advance();
  for (const { poller } of pollers) await poller.close();
  return (reads - before) / (TURNS - 10);
}

it('stores that are not next read the lock seldom while it is handed on', async () => {
  // All of them every 20 ms, for 300 ms after each handoff, would be 25, 62 and 100 reads.
  expect(await readsPerTurn(100)).toBeLessThan(15);
  expect(await readsPerTurn(250)).toBeLessThan(20);
  expect(await readsPerTurn(1_000)).toBeLessThan(50);
});

it('locks whose waits began at different times are read at the same moments', async () => {
  const clock = virtualClock();
  const moments = new Map<number, number>();
  const row = { version: '1', fence: 1n, floor: 0n, nowUs: 1, holds: [] };
  const waiting: Queued = { id: 'other', mode: { kind: 'exclusive' }, seenAtUs: 0, note: '' };
  const queue = [waiting, { ...waiting, id: 'own' }];
  const isWaiting = (id: string): boolean => id === 'own';
  const look = async (name: string) => {
    const atMs = clock.monotonicMs();
    moments.set(atMs, (moments.get(atMs) ?? 0) + 1);
    poller.onRead(new RowQueue({ ...row, name, queue }, '2', isWaiting));
  };
  const poller = new Poller(clock, look);
  poller.events = eventsOf(isWaiting);
  for (let n = 0; n < 20; n += 1) {
    await look(`lock ${n}`);
    await clock.advance(13);
  }
  moments.clear();
  await clock.advance(10_000);
  await poller.close();
  const looks = [...moments.values()].reduce((sum, each) => sum + each, 0);
  expect(looks).toBeGreaterThan(500);
  // Each by itself would be as many moments as looks.
  expect(moments.size).toBeLessThan(looks / 15);
});
