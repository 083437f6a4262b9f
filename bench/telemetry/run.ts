// What telemetry costs an uncontended pair on the memory store, where it weighs most: the core as it is
// published beside a build of the same sources without telemetry, in one process. Exits with 1 when a
// target is missed.
import { context, type MeterProvider as Meters, type TracerProvider as Tracers } from '@opentelemetry/api';
import { MeterProvider, MetricReader } from '@opentelemetry/sdk-metrics';
import { BasicTracerProvider, BatchSpanProcessor, InMemorySpanExporter } from '@opentelemetry/sdk-trace-base';
import type { Locks } from 'holdfast';
import { misses, p50, report } from '../redis/measure.ts';
import { Builds } from './builds.ts';

const PAIRS = 10_000;
const ROUNDS = 61;
const WARM_UP_ROUNDS = 10;

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

type Subject = () => Promise<number>;

function pairs(locks: Locks): Subject {
  const lock = locks.mutex('bench:1');
  const work = async (): Promise<void> => {
    for (let n = 0; n < PAIRS; n += 1) await (await lock.acquire()).release();
  };
  return () => processorNs(PAIRS, work);
}

/** The spans and measurements of a pair, made by hand: what the SDK costs by itself. */
function byHand(meters: Meters, tracers: Tracers): Subject {
  const [meter, tracer] = [meters.getMeter('by-hand'), tracers.getTracer('by-hand')];
  const [waits, holds] = [meter.createHistogram('waits'), meter.createHistogram('holds')];
  const held = meter.createUpDownCounter('held');
  const attributes = { group: 'bench', kind: 'exclusive', store: 'memory' };
  const [acquired, released] = [
    { ...attributes, outcome: 'acquired' },
    { ...attributes, outcome: 'released' },
  ];
  const work = async (): Promise<void> => {
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
  return () => processorNs(PAIRS, work);
}

const builds = new Builds();
await builds.make();
const meterProvider = new MeterProvider({ readers: [new IdleReader()] });
const tracerProvider = new BasicTracerProvider({
  spanProcessors: [new BatchSpanProcessor(new InMemorySpanExporter())],
});

/** Subjects have their own instance of the code. `use`: what is done with it before the first pair. */
async function subject(
  build: 'published' | 'without',
  use: (locks: Locks, instrument: typeof import('holdfast/otel').instrument) => void = () => {},
): Promise<Subject> {
  const { createLocks, memoryStore, instrument } = await builds.load(build);
  const locks = createLocks(memoryStore());
  use(locks, instrument);
  return pairs(locks);
}

const without = await subject('without');
const unused = await subject('published');
// The providers of the API alone record nothing: what is left is the cost of Holdfast's own code.
const withApi = await subject('published', (locks, instrument) => instrument(locks));
const withSdk = await subject('published', (locks, instrument) =>
  instrument(locks, { meterProvider, tracerProvider }),
);
const hand = byHand(meterProvider, tracerProvider);
builds.remove();

// In turn, and every other time in reverse: a busy moment of the machine affects all alike.
const subjects = [without, unused, withApi, withSdk, hand];
const rounds: Map<Subject, number>[] = [];
for (let n = 0; n < WARM_UP_ROUNDS + ROUNDS; n += 1) {
  const round = new Map<Subject, number>();
  for (const run of n % 2 === 0 ? subjects : [...subjects].reverse()) round.set(run, await run());
  if (n >= WARM_UP_ROUNDS) rounds.push(round);
}

const nsOf = (run: Subject): number => p50(rounds.map((round) => round.get(run) ?? Number.NaN));
/** The median of the ratios within each round. */
const ratio = (run: Subject, base: Subject): number =>
  p50(rounds.map((round) => (round.get(run) ?? Number.NaN) / (round.get(base) ?? Number.NaN)));
function line(what: string, run: Subject, base?: Subject): void {
  const times = base === undefined ? '' : `, ${ratio(run, base).toFixed(2)} times a plain pair`;
  console.log(`      ${what.padEnd(44)} ${nsOf(run).toFixed(0)} ns${times}`);
}
line('a pair of a core without telemetry', without);
line('a plain pair: telemetry is there, and unused', unused);
line('instrumented, without an SDK', withApi, unused);
line('instrumented, with the SDK', withSdk, unused);
line('the spans and measurements of the SDK alone', hand, unused);
report('unused telemetry, to a core without it', ratio(unused, without), { atMost: 1.03 });
report('instrumented, without an SDK, to a plain pair', ratio(withApi, unused), { atMost: 1.25 });
process.exitCode = misses() === 0 ? 0 : 1;
process.exit();
