import { context, DiagLogLevel, diag, trace } from '@opentelemetry/api';
import type { DataPoint, Histogram } from '@opentelemetry/sdk-metrics';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLocks, type Locks, memoryStore, type Store } from '../../src/index.ts';
import { instrument } from '../../src/telemetry/index.ts';
import { faultyStore, virtualClock } from '../../src/testing/index.ts';
import { startTelemetry } from '../support/telemetry/start-telemetry.ts';

let telemetry: ReturnType<typeof startTelemetry>;
const clock = virtualClock();
const open: Locks[] = [];

beforeEach(() => {
  telemetry = startTelemetry();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((locks) => locks.close({ drainMs: 0 })));
  await telemetry.stop();
});

function instrumented(locks = createLocks(memoryStore())): Locks {
  open.push(locks);
  instrument(locks, telemetry.providers);
  return locks;
}

/** How often each outcome was recorded. */
async function outcomes(name: string): Promise<Record<string, number>> {
  const points = await telemetry.points(name);
  return Object.fromEntries(
    points.map(({ attributes, value }) => [attributes['holdfast.outcome'], (value as Histogram).count]),
  );
}

async function sumOf(name: string): Promise<number> {
  const points = await telemetry.points(name);
  return points.reduce((sum, { value }) => sum + (value as number), 0);
}

describe('metrics', () => {
  it('count no claim any more that came later than its maxHoldMs', async () => {
    const store = memoryStore({ clock });
    const late: Store = Object.assign(Object.create(store), {
      claim: (...args: Parameters<Store['claim']>) => clock.sleep(500).then(() => store.claim(...args)),
      close: () => store.close(),
    });
    const locks = instrumented(createLocks(late, { clock }));
    const events: string[] = [];
    for (const event of ['acquired', 'lost'] as const) locks.on(event, () => events.push(event));
    const acquired = locks.mutex('a').acquire({ maxHoldMs: 300 });
    await clock.advance(600);
    expect((await acquired).remainingMs).toBe(0);
    expect(events).toEqual(['acquired', 'lost']);
    expect(await sumOf('holdfast.held')).toBe(0);
    expect(await sumOf('holdfast.waiting')).toBe(0);
  });

  it('record every outcome of an attempt', async () => {
    const locks = instrumented();
    const lock = locks.mutex('order:1');
    const hold = await lock.acquire();
    expect(await lock.tryAcquire()).toBeNull();
    await expect(lock.acquire({ waitMs: 5 })).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
    await expect(lock.acquire({ signal: AbortSignal.timeout(5) })).rejects.toThrow();
    const waiting = lock.acquire();
    await expect.poll(() => sumOf('holdfast.waiting')).toBe(1);
    expect(await sumOf('holdfast.held')).toBe(1);
    await hold.release();
    await (await waiting).release();
    expect(await outcomes('holdfast.wait.duration')).toEqual({
      acquired: 2,
      held: 1,
      timeout: 1,
      aborted: 1,
    });
    expect(await outcomes('holdfast.hold.duration')).toEqual({ released: 2 });
    expect([await sumOf('holdfast.waiting'), await sumOf('holdfast.held')]).toEqual([0, 0]);
  });

  it('record a store that fails, failed renewals and a loss', async () => {
    const failing = new Set<string>();
    const store = faultyStore(memoryStore({ clock }), ({ verb }) => (failing.has(verb) ? 'fail' : null));
    const locks = instrumented(createLocks(store, { clock, ttlMs: 3_000 }));
    await locks.mutex('a').acquire();
    await clock.advance(1_500);
    failing.add('renew');
    await clock.advance(3_000);
    expect(await outcomes('holdfast.renew.duration')).toMatchObject({ renewed: 1 });
    expect((await outcomes('holdfast.renew.duration')).failed).toBeGreaterThan(1);
    expect(await outcomes('holdfast.hold.duration')).toEqual({ expired: 1 });
    failing.add('claim');
    await expect(locks.mutex('b').tryAcquire()).rejects.toMatchObject({ code: 'STORE' });
    expect(await outcomes('holdfast.wait.duration')).toEqual({ acquired: 1, failed: 1 });
  });

  it('end a hold whose release was not confirmed', async () => {
    let isSilent = false;
    const store = faultyStore(memoryStore({ clock }), ({ verb }) =>
      isSilent && verb === 'release' ? 'fail' : null,
    );
    const locks = instrumented(createLocks(store, { clock, ttlMs: 60_000 }));
    const hold = await locks.mutex('a').acquire();
    isSilent = true;
    const releasing = expect(hold.release()).rejects.toMatchObject({ code: 'STORE' });
    await clock.advance(10_000);
    await releasing;
    expect(await outcomes('holdfast.hold.duration')).toEqual({ released: 1 });
    expect(await sumOf('holdfast.held')).toBe(0);
    isSilent = false;
    await clock.advance(60_000);
  });

  it('have the group, the kind and the store of the lock, in seconds', async () => {
    const locks = instrumented();
    const startedMs = performance.now();
    await locks.semaphore('api:eu', { permits: 2 }).run(() => {});
    const tookMs = performance.now() - startedMs;
    const [point] = await telemetry.points('holdfast.wait.duration');
    expect(point?.attributes).toEqual({
      'holdfast.group': 'api',
      'holdfast.kind': 'permits',
      'holdfast.store': 'memory',
      'holdfast.outcome': 'acquired',
    });
    const { buckets, sum } = (point as DataPoint<Histogram>).value;
    expect([buckets.boundaries[0], buckets.boundaries.at(-1)]).toEqual([0.001, 10]);
    expect(sum).toBeLessThanOrEqual(tookMs / 1_000);
    const [held] = await telemetry.points('holdfast.hold.duration');
    expect((held as DataPoint<Histogram>).value.buckets.boundaries.at(-1)).toBe(3_600);
  });

  it('have at most 101 groups, however many names and Locks there are', async () => {
    const all = Array.from({ length: 3 }, () => createLocks(memoryStore()));
    open.push(...all);
    // No traces: the spans of so many holds would take most of the time.
    for (const locks of all) instrument(locks, { meterProvider: telemetry.providers.meterProvider });
    const names = Array.from({ length: 100_000 }, (_, n) => `user-${n}:cart`);
    // Calls at the same time share their turns of the event loop.
    for (let n = 0; n < names.length; n += 1_000) {
      const locks = all[(n / 1_000) % all.length] as Locks;
      await Promise.all(names.slice(n, n + 1_000).map((name) => locks.mutex(name).run(() => {})));
    }
    const points = await telemetry.points('holdfast.wait.duration');
    const groups = points.map(({ attributes }) => attributes['holdfast.group']);
    expect(new Set(groups).size).toBe(101);
    expect(groups).toContain('other');
    expect(points.reduce((sum, { value }) => sum + (value as Histogram).count, 0)).toBe(names.length);
  });

  it('count a rate limit as waits, not as holds', async () => {
    const locks = instrumented();
    await locks.rateLimit('mail', { permits: 2, perMs: 60_000 }).take();
    expect(await outcomes('holdfast.wait.duration')).toEqual({ acquired: 1 });
    expect(await sumOf('holdfast.held')).toBe(0);
  });

  it('are of one Locks only, and end', async () => {
    const store = memoryStore();
    const other = createLocks(store);
    const locks = createLocks(store);
    open.push(other, locks);
    const stop = instrument(locks, telemetry.providers);
    await other.mutex('x').run(() => {});
    expect(await outcomes('holdfast.wait.duration')).toEqual({});
    await locks.mutex('x').run(() => {});
    stop();
    await locks.mutex('x').run(() => {});
    expect(await outcomes('holdfast.wait.duration')).toEqual({ acquired: 1 });
  });

  it('refuse an unknown option', () => {
    const locks = instrumented();
    expect(() => instrument(locks, { meter: 1 } as never)).toThrow(/did you mean meterProvider/);
    expect(() => instrument({} as never)).toThrow();
  });
});

describe('traces', () => {
  it('show the wait and the hold under the span of the caller', async () => {
    const locks = instrumented();
    const tracer = telemetry.providers.tracerProvider.getTracer('test');
    const first = await locks.mutex('order:1').acquire();
    const caller = tracer.startSpan('request');
    const waiting = context.with(trace.setSpan(context.active(), caller), () =>
      locks.mutex('order:1').run((hold) => hold.fence),
    );
    await expect.poll(() => sumOf('holdfast.waiting')).toBe(1);
    await first.release();
    const fence = await waiting;
    caller.end();
    const spans = telemetry
      .spans()
      .filter(({ parentSpanContext }) => parentSpanContext?.spanId === caller.spanContext().spanId);
    expect(spans.map(({ name }) => name)).toEqual(['holdfast.acquire', 'holdfast.hold']);
    for (const { attributes } of spans) {
      expect(attributes).toMatchObject({
        'holdfast.name': 'order:1',
        'holdfast.group': 'order',
        'holdfast.fence': `${fence}`,
      });
    }
    const [acquire, hold] = spans;
    expect(acquire?.events.map(({ name }) => name)).toEqual(['holdfast.waiting']);
    expect(hold?.events.map(({ name }) => name)).toEqual(['holdfast.waited']);
    expect(hold?.attributes['holdfast.outcome']).toBe('released');
  });

  it('show failed renewals and the loss', async () => {
    const store = faultyStore(memoryStore({ clock }), ({ verb }) => (verb === 'renew' ? 'fail' : null));
    const locks = instrumented(createLocks(store, { clock, ttlMs: 3_000 }));
    await locks.mutex('a').acquire();
    await clock.advance(4_000);
    const hold = telemetry.spans().find(({ name }) => name === 'holdfast.hold');
    const events = hold?.events.map(({ name }) => name) ?? [];
    expect(events).toContain('holdfast.renew_failed');
    expect(events.at(-1)).toBe('holdfast.lost');
    expect(hold?.status.code).toBe(2);
  });
});

describe('the end of the instrumentation', () => {
  it('ends every span once, and counts down what is held and what waits', async () => {
    const complaints: string[] = [];
    const complain = (text: string): void => void complaints.push(text);
    const logger = { error: complain, warn: complain, info: () => {}, debug: () => {}, verbose: () => {} };
    diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true });
    try {
      const locks = createLocks(memoryStore());
      open.push(locks);
      const stop = instrument(locks, telemetry.providers);
      const hold = await locks.mutex('a').acquire();
      const waiting = locks.mutex('a').acquire();
      await expect.poll(() => sumOf('holdfast.waiting')).toBe(1);
      stop();
      expect(await sumOf('holdfast.waiting')).toBe(0);
      expect(await sumOf('holdfast.held')).toBe(0);
      await hold.release();
      await (await waiting).release();
      const ended = telemetry.spans().map(({ name }) => name);
      expect(ended.sort()).toEqual(['holdfast.acquire', 'holdfast.acquire', 'holdfast.hold']);
      expect(complaints).toEqual([]);
    } finally {
      diag.disable();
    }
  });
});

describe('a listener', () => {
  it('that throws becomes a warning, and neither a failed acquire nor an uncaught error', async () => {
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning.message);
    process.on('warning', onWarning);
    try {
      const locks = createLocks(memoryStore());
      open.push(locks);
      const group = (): string => {
        throw new Error('no group');
      };
      instrument(locks, { ...telemetry.providers, group });
      locks.on('acquired', () => {
        throw new Error('thrown');
      });
      locks.on('released', (async () => {
        throw new Error('rejected');
      }) as never);
      await locks.mutex('a').run(() => {});
      await expect.poll(() => warnings.length).toBe(3);
      for (const text of ['no group', 'thrown', 'rejected'])
        expect(warnings.some((warning) => warning.includes(text))).toBe(true);
    } finally {
      process.off('warning', onWarning);
    }
  });

  it('may be removed, and another added, while the event is reported', async () => {
    const locks = createLocks(memoryStore());
    open.push(locks);
    const heard: string[] = [];
    const stop = locks.on('acquired', () => {
      heard.push('first');
      stop();
      locks.on('acquired', () => heard.push('third'));
    });
    locks.on('acquired', () => heard.push('second'));
    await locks.mutex('a').run(() => {});
    expect(heard).toEqual(['first', 'second']);
    await locks.mutex('a').run(() => {});
    expect(heard).toEqual(['first', 'second', 'second', 'third']);
  });
});
