import { PrometheusExporter, PrometheusSerializer } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { memoryStore } from '../../src/index.ts';
import { instrument } from '../../src/telemetry/index.ts';
import { faultyStore, virtualClock } from '../../src/testing/index.ts';
import { later } from '../support/waiting/eventually.ts';
import { type Served, serve } from './support/served.ts';

const failing = new Set<string>();
const clock = virtualClock();
const exporter = new PrometheusExporter({ preventServerStart: true });
let served: Served;

beforeAll(async () => {
  const store = faultyStore(memoryStore({ clock }), ({ verb }) => (failing.has(verb) ? 'fail' : null));
  served = await serve({ store, locksOptions: { clock, ttlMs: 3_000 } });
  instrument(served.locks, { meterProvider: new MeterProvider({ readers: [exporter] }) });
});
afterAll(async () => {
  await served?.[Symbol.asyncDispose]();
  await exporter.shutdown();
});

/** Every outcome of every instrument but those that need an interruption. */
async function happen(): Promise<void> {
  const { locks } = served;
  const hold = await locks.mutex('order:1').acquire();
  await expect(locks.mutex('order:1').tryAcquire()).resolves.toBeNull();
  const timedOut = later(locks.mutex('order:1').acquire({ waitMs: 5 }));
  await clock.advance(50);
  await expect(timedOut).rejects.toMatchObject({ code: 'ACQUIRE_TIMEOUT' });
  const waiting = later(locks.mutex('order:1').acquire());
  await locks.semaphore('a "quoted"\\ group', { permits: 2 }).run(() => {});
  await locks.rateLimit('mail', { permits: 2, perMs: 60_000 }).take();
  await hold.release();
  const second = await waiting;
  await clock.advance(1_500);
  failing.add('renew');
  await clock.advance(4_000);
  expect(second.signal.aborted).toBe(true);
  failing.add('claim');
  await expect(locks.mutex('order:2').tryAcquire()).rejects.toThrow();
  failing.clear();
}

/** By its text up to the value. Sums of durations are left out: two recorders round them differently. */
function series(text: string): string[] {
  const isOurs = (line: string): boolean =>
    !/^#? ?\S* ?target_info|^$/.test(line) && !/^\w+_sum\{/.test(line);
  return text.split('\n').filter(isOurs).sort();
}

describe('GET /metrics', () => {
  it('gives what the Prometheus exporter of OpenTelemetry gives', async () => {
    await happen();
    const { resourceMetrics } = await exporter.collect();
    const expected = new PrometheusSerializer().serialize(resourceMetrics);
    const answer = await served.get('/metrics');
    expect(answer.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
    const text = await answer.text();
    expect(series(text)).toEqual(series(expected));
    for (const outcome of ['acquired', 'held', 'timeout', 'failed', 'released', 'expired', 'renewed'])
      expect(text).toContain(`holdfast_outcome="${outcome}"`);
    expect(text).toContain('holdfast_group="a \\"quoted\\"\\\\ group"');
    const sums = (all: string): string[] => all.match(/^\w+_sum\{.*\}/gm) ?? [];
    expect(sums(text).sort()).toEqual(sums(expected).sort());
  });

  it('is refused without access', async () => {
    await using closed = await serve({ access: () => 'none' });
    const answer = await closed.get('/metrics');
    expect([answer.status, await answer.json()]).toMatchObject([403, { error: 'forbidden' }]);
  });
});
