// What telemetry costs an uncontended pair on the memory store, where it weighs most. Exits with 1
// when a target is missed.
import { channel, tracingChannel } from 'node:diagnostics_channel';
import { context, type MeterProvider as Meters, type TracerProvider as Tracers } from '@opentelemetry/api';
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, BatchSpanProcessor, InMemorySpanExporter } from '@opentelemetry/sdk-trace-base';
import { createLocks, type Locks, memoryStore } from 'holdfast';
import { instrument } from 'holdfast/otel';
import { alternate, middle, misses, report } from '../redis/measure.ts';

const PAIRS = 20_000;
const ROUNDS = 15;

class IdleReader extends MetricReader {
  protected override async onForceFlush(): Promise<void> {}
  protected override async onShutdown(): Promise<void> {}
}

/** Nanoseconds of processor time for each of `count` rounds: other programs of the machine do not count. */
async function processorNs(count: number, work: () => Promise<void>): Promise<number> {
  const started = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(started);
  return ((user + system) * 1e3) / count;
}

async function pair(locks: Locks): Promise<number[]> {
  const lock = locks.mutex('bench:1');
  const pairs = async (): Promise<void> => {
    for (let n = 0; n < PAIRS; n += 1) await (await lock.acquire()).release();
  };
  return [await processorNs(PAIRS, pairs)];
}

/** What a pair asks when nothing listens: two channels and two lists of listeners for each of two events. */
async function checksOfUnused(): Promise<number> {
  const trace = tracingChannel('holdfast:acquire');
  const channels = new Map([
    ['acquired', channel('holdfast:acquired')],
    ['released', channel('holdfast:released')],
  ]);
  const [listeners, observers] = [new Map<string, unknown[]>(), new Map<string, unknown[]>()];
  const isHeard = (event: string): boolean =>
    (listeners.get(event)?.length ?? 0) > 0 ||
    channels.get(event)?.hasSubscribers === true ||
    (observers.get(event)?.length ?? 0) > 0;
  let heard = 0;
  const checks = async (): Promise<void> => {
    for (let n = 0; n < PAIRS * 10; n += 1) {
      if (trace.hasSubscribers) heard += 1;
      if (isHeard('acquired') || isHeard('released')) heard += 1;
    }
  };
  const ns = await processorNs(PAIRS * 10, checks);
  if (heard > 0) throw new Error('telemetry is in use');
  return ns;
}

/** The spans and measurements of a pair, made by hand: what the SDK costs by itself. */
function byHand(meters: Meters, tracers: Tracers): () => Promise<number[]> {
  const [meter, tracer] = [meters.getMeter('by-hand'), tracers.getTracer('by-hand')];
  const [waits, holds] = [meter.createHistogram('waits'), meter.createHistogram('holds')];
  const held = meter.createUpDownCounter('held');
  const attributes = { group: 'bench', kind: 'exclusive', store: 'memory' };
  const [acquired, released] = [
    { ...attributes, outcome: 'acquired' },
    { ...attributes, outcome: 'released' },
  ];
  const pairs = async (): Promise<void> => {
    for (let n = 0; n < PAIRS; n += 1) {
      const name = 'bench:1';
      const acquire = tracer.startSpan('acquire', { attributes }, context.active());
      acquire.setAttribute('name', name);
      waits.record(0.001, acquired);
      acquire.setAttributes({ fence: '1', outcome: 'acquired' });
      acquire.end();
      const options = { attributes: { ...attributes, name, fence: '1' } };
      const hold = tracer.startSpan('hold', options, context.active());
      hold.addEvent('waited', { duration: 0.001 });
      held.add(1, attributes);
      held.add(-1, attributes);
      holds.record(0.001, released);
      hold.setAttribute('outcome', 'released');
      hold.end();
      // As in a pair: the exporter gets its turn.
      if (n % 16 === 0) await Promise.resolve();
    }
  };
  return async () => [await processorNs(PAIRS, pairs)];
}

const unused = createLocks(memoryStore());
await pair(unused);
const plain: number[][] = [];
for (let n = 0; n < 5; n += 1) plain.push(await pair(unused));
const plainNs = middle(plain);
const checksNs = await checksOfUnused();

const withApi = createLocks(memoryStore());
const withSdk = createLocks(memoryStore());
const meterProvider = new MeterProvider({ readers: [new IdleReader()] });
const tracerProvider = new BasicTracerProvider({
  spanProcessors: [new BatchSpanProcessor(new InMemorySpanExporter())],
});
// The providers of the API alone record nothing: what is left is the cost of Holdfast's own code.
const stops = [instrument(withApi), instrument(withSdk, { meterProvider, tracerProvider })];
const hand = byHand(meterProvider, tracerProvider);
const subjects = [() => pair(unused), () => pair(withApi), () => pair(withSdk), hand];
const results = await alternate(subjects, ROUNDS, (run) => run());
const [base = 0, api = 0, sdk = 0, own = 0] = subjects.map((run) => middle(results.get(run) ?? []));
for (const stop of stops) stop();
const line = (what: string, ns: number): void => console.log(`      ${what.padEnd(44)} ${ns.toFixed(0)} ns`);
line('an uncontended pair, no telemetry in use', plainNs);
line('in a Locks beside instrumented ones', base);
line('instrumented, without an SDK', api);
line('instrumented, with the SDK', sdk);
line('the spans and measurements of the SDK alone', own);
report('checks of unused telemetry, as a share of a pair', checksNs / plainNs, { atMost: 0.03 });
report('instrumented, without an SDK, to a pair that is not', api / base, { atMost: 1.25 });
process.exitCode = misses() === 0 ? 0 : 1;
process.exit();
