import { describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { WrappedStore } from '../../src/store/wrapped-store.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/memory/world.ts';

const READ_MS = 10;
const CLAIMS = 2_000;

/** A process over a store whose reads take time and are counted. */
function reading() {
  const { clock, store, locks } = makeWorld();
  /** `looks`: how often any caller has looked at a claim. */
  const counted = { reads: 0, looks: 0 };
  class Counting extends WrappedStore {
    override async read(name: string) {
      counted.reads += 1;
      await new Promise<void>((resolve) => clock.startTimer(READ_MS, () => resolve()));
      return (await super.read(name)).map((claim) => ({
        ...claim,
        get granted(): boolean {
          counted.looks += 1;
          return claim.granted;
        },
      }));
    }
  }
  return {
    clock,
    store,
    counted,
    holders: locks,
    mine: createLocks(new Counting(connectionTo(store)), { clock }),
  };
}

/** What each of them resolves to or rejects with. */
async function settled(waits: readonly Promise<unknown>[]): Promise<unknown[]> {
  return (await Promise.allSettled(waits)).map((each) =>
    each.status === 'fulfilled' ? each.value : each.reason,
  );
}

describe('two hundred waiters of one lock', () => {
  it('that time out together share reads of its queue, and each names the holder', async () => {
    const { clock, counted, holders, mine } = reading();
    const hold = await holders().mutex('a').acquire();
    const waits = Array.from({ length: 200 }, () => mine.mutex('a').acquire({ waitMs: 1_000 }));
    const errors = settled(waits);
    await clock.advance(1_500);
    for (const error of await errors) {
      expect(codeOf(error)).toBe('ACQUIRE_TIMEOUT');
      expect(error).toMatchObject({ holders: [{ id: hold.id }] });
    }
    expect(counted.reads).toBeLessThanOrEqual(3);
  });

  it('that wait for one run share reads, and all learn that it is done', async () => {
    const { clock, counted, holders, mine } = reading();
    let end = (): void => {};
    const running = holders().once('a', () => new Promise<void>((resolve) => (end = resolve)));
    const waits = Array.from({ length: 200 }, () => mine.once('a', () => {}, { waitMs: 20_000 }));
    const outcomes = settled(waits);
    await clock.advance(1_000);
    end();
    await clock.advance(1_000);
    await running;
    expect(new Set((await outcomes).map((each) => JSON.stringify(each)))).toEqual(
      new Set(['{"ran":false,"why":"done"}']),
    );
    expect(counted.reads).toBeLessThan(10);
  });

  it('that time out together look at each claim a few times', async () => {
    const { clock, counted, holders, mine } = reading();
    const hold = await holders().mutex('a').acquire();
    const errors = settled(Array.from({ length: 200 }, () => mine.mutex('a').acquire({ waitMs: 1_000 })));
    await clock.advance(1_500);
    const positions = (await errors).map((error) => {
      expect(error).toMatchObject({ code: 'ACQUIRE_TIMEOUT', holders: [{ id: hold.id }] });
      return (error as { position: number }).position;
    });
    // The first one, which reads alone, may have left when the others read.
    expect(positions).toEqual([...positions].sort((a, b) => a - b));
    expect(positions.at(-1)).toBeGreaterThanOrEqual(199);
    expect(counted.looks).toBeGreaterThan(200);
    expect(counted.looks).toBeLessThan(20 * 200);
  });

  it('a lost reply to one read delays the others only for a moment', async () => {
    const { clock, holders, store } = reading();
    let reads = 0;
    class Losing extends WrappedStore {
      override read(name: string) {
        reads += 1;
        return reads === 1 ? new Promise<never>(() => {}) : super.read(name);
      }
    }
    const mine = createLocks(new Losing(connectionTo(store)), { clock });
    const hold = await holders().mutex('a').acquire();
    const lost = outcomeOf(mine.inspect('a'));
    const others = [outcomeOf(mine.inspect('a')), outcomeOf(mine.inspect('a'))];
    const timedOut = outcomeOf(mine.mutex('a').acquire({ waitMs: 1 }));
    await clock.advance(900);
    for (const each of others) expect(each.value).toMatchObject({ holders: [{ id: hold.id }] });
    expect(timedOut.error).toMatchObject({ code: 'ACQUIRE_TIMEOUT', holders: [{ id: hold.id }] });
    expect([lost.state, reads]).toEqual(['pending', 2]);
    await clock.advance(6_000);
    expect(lost.error).toMatchObject({ code: 'STORE' });
  });

  it('a read begins after the call that asks for it', async () => {
    const { clock, counted, holders, mine } = reading();
    const first = outcomeOf(mine.inspect('a'));
    await clock.advance(1);
    const hold = await holders().mutex('a').acquire();
    const [second, third] = [outcomeOf(mine.inspect('a')), outcomeOf(mine.inspect('a'))];
    await clock.advance(2 * READ_MS);
    expect(first.state).toBe('kept');
    for (const each of [second, third]) expect(each.value).toMatchObject({ holders: [{ id: hold.id }] });
    expect(counted.reads).toBe(2);
  });
});

it('a grant that arrives while a time-out is explained is a hold', async () => {
  const { clock, holders, mine } = reading();
  const hold = await holders().mutex('a').acquire();
  const waiting = outcomeOf(mine.mutex('a').acquire({ waitMs: 1_000 }));
  await clock.advance(1_000 + READ_MS / 2);
  expect(waiting.state).toBe('pending');
  await hold.release();
  await clock.advance(READ_MS);
  expect(waiting.state).toBe('kept');
  expect(waiting.value?.remainingMs).toBeGreaterThan(0);
});

it('the error of a time-out names a hundred of many holders', async () => {
  const { clock, locks } = makeWorld();
  const semaphore = (of: Locks) => of.semaphore('s', { permits: 300 });
  const own = locks();
  for (let n = 0; n < 300; n += 1) await semaphore(own).acquire();
  const wait = outcomeOf(semaphore(locks()).acquire({ waitMs: 100 }));
  await clock.advance(200);
  expect((wait.error as { holders: unknown[] }).holders).toHaveLength(100);
  expect(String(wait.error)).toContain('and many more');
});

it('the clean-up after an outage looks at each claim a few times, however many there are', async () => {
  const { clock, faulty } = makeWorld();
  let isAway = true;
  const { locks } = faulty(() => (isAway ? 'fail' : null));
  const tries = Array.from({ length: CLAIMS }, (_, n) => locks.mutex(`lock ${n}`).tryAcquire());
  const outcomes = settled(tries);
  await clock.advance(100);
  for (const error of await outcomes) expect(codeOf(error)).toBe('STORE');
  isAway = false;
  const iterator = Object.getPrototypeOf(new Set().values()) as Iterator<unknown>;
  const { next } = iterator;
  /** How often a leftover of the clean-up was looked at. */
  let steps = 0;
  iterator.next = function (this: Iterator<unknown>) {
    const result = next.call(this);
    if (typeof result.value === 'object' && 'mayArriveLate' in (result.value ?? {})) steps += 1;
    return result;
  };
  await clock.advance(10_000);
  iterator.next = next;
  expect(steps).toBeGreaterThan(CLAIMS);
  expect(steps).toBeLessThan(20 * CLAIMS);
});
