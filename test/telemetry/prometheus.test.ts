import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PrometheusExporter } from '@opentelemetry/exporter-prometheus';
import { MeterProvider } from '@opentelemetry/sdk-metrics';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks, memoryStore } from '../../src/index.ts';
import { instrument } from '../../src/telemetry/index.ts';
import { faultyStore } from '../../src/testing/index.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { queryPrometheus, startPrometheus } from '../support/servers/prometheus.ts';

const page = readFileSync(new URL('../../docs/monitoring.md', import.meta.url), 'utf8');
/** The alerts of the page, by the sentence that introduces them. */
const ALERTS = new Map(
  [...page.matchAll(/^\*\*(.+?)\.\*\*[\s\S]*?```promql\n([\s\S]*?)```/gm)].map(([, title, query]) => [
    title as string,
    (query as string).replaceAll('\n', ' '),
  ]),
);

let prometheus: Server;
let exporter: PrometheusExporter;
let metrics: HttpServer;
let locks: Locks;
const failing = new Set<string>();

beforeAll(async () => {
  exporter = new PrometheusExporter({ preventServerStart: true });
  metrics = createServer((request, response) => exporter.getMetricsRequestHandler(request, response));
  metrics.listen(0, '127.0.0.1');
  await once(metrics, 'listening');
  const { port } = metrics.address() as AddressInfo;
  const store = faultyStore(memoryStore(), ({ verb }) => (failing.has(verb) ? 'fail' : null));
  locks = createLocks(store, { ttlMs: 2_000 });
  instrument(locks, { meterProvider: new MeterProvider({ readers: [exporter] }) });
  prometheus = await startPrometheus(`127.0.0.1:${port}`);
}, 120_000);

afterAll(async () => {
  await locks?.close({ drainMs: 0 });
  await exporter?.shutdown();
  await prometheus?.stop();
  metrics?.close();
});

const firing = async (title: string): Promise<boolean> =>
  (await queryPrometheus(prometheus, ALERTS.get(title) ?? '')).length > 0;

describe('the alerts of docs/monitoring.md', () => {
  it('are five, and Prometheus can run each of them', async () => {
    expect(ALERTS.size).toBe(5);
    for (const query of ALERTS.values()) await queryPrometheus(prometheus, query);
  });

  it('are silent while all goes well', async () => {
    for (let n = 0; n < 20; n += 1) await locks.mutex(`order:${n}`).run(() => {});
    const series = 'holdfast_wait_duration_count';
    await expect.poll(async () => (await queryPrometheus(prometheus, series)).length).toBeGreaterThan(0);
    for (const title of ALERTS.keys()) expect(await firing(title), title).toBe(false);
  });

  it('fire when what they are about happens for the first time', async () => {
    const slow = await locks.mutex('report:slow').acquire();
    const waiting = locks.mutex('report:slow').acquire({ waitMs: 20_000 });
    await expect(locks.mutex('report:slow').acquire({ waitMs: 700 })).rejects.toThrow();
    await slow.release();
    await (await waiting).release();
    const lost = await locks.mutex('order:lost').acquire();
    failing.add('renew');
    await new Promise<void>((resolve) => lost.signal.addEventListener('abort', () => resolve()));
    failing.add('claim');
    await expect(locks.mutex('order:down').tryAcquire()).rejects.toThrow();
    failing.clear();
    for (const title of ALERTS.keys()) await expect.poll(() => firing(title), { message: title }).toBe(true);
    const losses = 'sum(holdfast_hold_duration_count{holdfast_outcome="expired"})';
    // A scrape that comes too late leaves the series out until the next one.
    await expect.poll(() => queryPrometheus(prometheus, losses)).toEqual([{ metric: {}, value: 1 }]);
  });
});
