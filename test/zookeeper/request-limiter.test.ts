import { describe, expect, it } from 'vitest';
import type { Clock } from '../../src/clock.ts';
import { StoreError } from '../../src/errors.ts';
import { type LimitedRequest, RequestLimiter } from '../../src/stores/zookeeper/request-limiter.ts';
import { virtualClock } from '../../src/testing/index.ts';

const QUEUED = { key: 'any', isQueued: true };
const ENTERING = { key: 'any', isQueued: false };

const TIMEOUT_MS = 5_000;

const start = (clock: Clock = virtualClock(), isOpen = (): boolean => true): RequestLimiter =>
  new RequestLimiter(clock, isOpen, () => TIMEOUT_MS);

async function run<T>(limiter: RequestLimiter, work: () => Promise<T>, options: LimitedRequest): Promise<T> {
  const turn = limiter.begin(options);
  const end = turn instanceof Promise ? await turn : turn;
  try {
    return await work();
  } finally {
    end();
  }
}

/** Work that records its beginning, and ends on request. */
function heldBack<T>(): { begun: T[]; ends: (() => void)[]; work(label: T): () => Promise<void> } {
  const [begun, ends]: [T[], (() => void)[]] = [[], []];
  const work = (label: T) => (): Promise<void> => {
    begun.push(label);
    return new Promise((resolve) => void ends.push(resolve));
  };
  return { begun, ends, work };
}

describe('row 18: requests that can wait', () => {
  it('are sent in bounded numbers and in order, those of queued claims first', async () => {
    const limiter = start();
    const { begun, ends, work } = heldBack<string>();
    const entering = Array.from({ length: 1_000 }, (_, n) => run(limiter, work(`enters ${n}`), ENTERING));
    const queued = Array.from({ length: 5 }, (_, n) => run(limiter, work(`queued ${n}`), QUEUED));
    const atOnce = begun.length;
    expect(atOnce).toBeLessThanOrEqual(256);
    while (ends.length > 0) {
      const some = ends.splice(0, 3);
      for (const end of some) end();
      await new Promise(setImmediate);
      expect(ends.length).toBeLessThanOrEqual(atOnce);
    }
    await Promise.all([...entering, ...queued]);
    const entered = begun.filter((name) => name.startsWith('enters'));
    expect(entered).toEqual(entered.map((_, n) => `enters ${n}`));
    expect(begun.slice(atOnce, atOnce + 5)).toEqual([0, 1, 2, 3, 4].map((n) => `queued ${n}`));
  });

  it('are sent in smaller numbers while answers are slow, and then in larger ones again', async () => {
    const clock = virtualClock();
    const limiter = start(clock);
    let pending = 0;
    let most = 0;
    const work = (ms: number) => async (): Promise<void> => {
      pending += 1;
      most = Math.max(most, pending);
      await new Promise<void>((resolve) => void clock.startTimer(ms, resolve));
      pending -= 1;
    };
    const burst = async (ms: number): Promise<number> => {
      most = 0;
      const all = Promise.all(Array.from({ length: 1_000 }, () => run(limiter, work(ms), ENTERING)));
      await clock.advance(ms * 1_000);
      await all;
      return most;
    };
    expect(await burst(10)).toBe(256);
    await burst(1_000);
    expect(await burst(1_000)).toBeLessThanOrEqual(9);
    await burst(10);
    expect(await burst(10)).toBe(256);
  });

  it('are dropped at once when their callers give up, and are never sent', async () => {
    const limiter = start();
    const { begun, ends, work } = heldBack<number>();
    const callers = Array.from({ length: 600 }, () => new AbortController());
    const all = callers.map(({ signal }, n) =>
      run(limiter, work(n), { key: `me#${n}`, isQueued: n % 2 === 0, signal }),
    );
    const settled = Promise.allSettled(all);
    const atOnce = begun.length;
    expect(atOnce).toBeLessThan(600);
    for (const caller of callers) caller.abort();
    // A request that was not sent does not wait for the reply to another.
    const refused = await Promise.race(all.slice(-1)).catch((error: unknown) => error);
    expect(refused).toMatchObject({ code: 'STORE', applied: 'no' });
    for (const end of ends) end();
    const outcomes = await settled;
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(atOnce);
    expect(begun).toHaveLength(atOnce);
  });

  it('keep their turn when a time limit is over, and are dropped when the claim is released', async () => {
    const limiter = start();
    const { begun, ends, work } = heldBack<number>();
    const abort = new AbortController();
    const all = Array.from({ length: 300 }, (_, n) =>
      run(limiter, work(n), { key: `me#${n}`, isQueued: false, signal: abort.signal }),
    );
    const settled = Promise.allSettled(all);
    abort.abort(new StoreError('No answer in time', { applied: 'unknown' }));
    expect(limiter.cancel('me#299')).toBe(true);
    expect(limiter.cancel('me#299')).toBe(false);
    await expect(all[299]).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    expect(limiter.cancel('me#0')).toBe(false);
    while (ends.length > 0) {
      for (const end of ends.splice(0)) end();
      await new Promise(setImmediate);
    }
    await settled;
    expect(begun).toEqual(begun.map((_, n) => n));
    expect(begun).toHaveLength(299);
  });

  it('are all refused when the connection is lost before their turn', async () => {
    let isOpen = true;
    const limiter = start(undefined, () => isOpen);
    const { ends, work } = heldBack<string>();
    const first = run(limiter, work('first'), ENTERING);
    const others = Array.from({ length: 400 }, () =>
      run(limiter, () => new Promise<void>(() => {}), ENTERING),
    );
    const refused = Promise.allSettled(others.slice(255));
    isOpen = false;
    ends[0]?.();
    await first;
    for (const each of await refused) expect(each).toMatchObject({ reason: { applied: 'no' } });
  });
});
