import { expect, it } from 'vitest';
import { Core } from '../../src/core.ts';
import { memoryStore } from '../../src/index.ts';
import { instant } from '../../src/store/validity.ts';
import { request } from '../../src/testing/store-case.ts';
import { virtualClock } from '../../src/testing/virtual-clock.ts';
import { KeptHolds } from '../../src/thread/kept-holds.ts';
import { LoopCheckingStore } from '../../src/thread/loop-checking-store.ts';
import { SharedHeader, type Slot, SlotPool, slotsOf } from '../../src/thread/shared-slots.ts';

it('a message about a hold that is gone does not change the next hold of its slot', async () => {
  const clock = virtualClock();
  const header = new SharedHeader();
  header.setTurn(clock);
  const store = new LoopCheckingStore(memoryStore({ clock }), clock, header, 60_000);
  const kept = new KeptHolds(new Core(store, { clock }), store, header, () => {});
  const slots = new SlotPool((buffer) => kept.addPage(buffer));
  const [gone, next] = [request('gone'), request('next')];
  for (const claim of [gone, next]) {
    await store.claim(claim);
    const { name, id, ttlMs } = claim;
    const sent = instant(clock);
    const slot = slots.take();
    const end = { monotonicMs: sent.monotonicMs + ttlMs, wallMs: sent.wallMs + ttlMs };
    const times = { ttlMs, renewEveryMs: null, maxHoldMs: null, leastMs: null, sent, validForMs: ttlMs };
    slot.offer(end, JSON.stringify({ name, id, renew: true, ...times }));
    if (claim === next) continue;
    // It is given up before the thread has looked. So the other hold gets its slot.
    slot.takeBack();
    slots.giveBack(slot);
    await store.release(gone);
  }
  await kept.extend(gone.id, 3_600_000);
  await kept.stopRenewing(gone.id);
  const leftMs = async (): Promise<number> => (await store.read('next'))[0]?.expiresInMs ?? 0;
  expect(await leftMs()).toBeLessThanOrEqual(next.ttlMs);
  expect(kept.isKept(next.id)).toBe(true);
  await kept.extend(next.id, 3_600_000);
  expect(await leftMs()).toBeGreaterThan(3_000_000);
});

it('a hold that the thread has not dropped yet does not make the shared memory grow', () => {
  const clock = virtualClock();
  const pages: SharedArrayBuffer[] = [];
  const slots = new SlotPool((buffer) => void pages.push(buffer));
  const slow = slots.take();
  slow.offer(instant(clock), 'slow');
  const inThread = slotsOf(pages[0] as SharedArrayBuffer);
  const kept = inThread.filter((slot) => slot.accept() !== null);
  expect(kept).toHaveLength(1);
  slots.giveBack(slow);
  const taken = new Set<Slot>();
  for (let count = 0; count < 1_000; count += 1) {
    const slot = slots.take();
    taken.add(slot);
    slots.giveBack(slot);
  }
  expect(pages).toHaveLength(1);
  expect(taken.has(slow)).toBe(false);
  kept[0]?.setFree();
  for (let count = 0; count < 256; count += 1) taken.add(slots.take());
  expect(pages).toHaveLength(1);
  expect(taken.has(slow)).toBe(true);
});
