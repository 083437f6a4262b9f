import { setTimeout as sleep } from 'node:timers/promises';
import type { Adapter, Held, MakeAdapter } from './adapter.ts';
import { randomFrom } from './random.ts';
import { acquireOf, HoldRecorder } from './worker-hold.ts';
import { LOCK_OF, LOCKS, START_FAILED, type WorkerPlan, type Workload } from './worker-messages.ts';
import { WorkerOutput } from './worker-output.ts';
import { FencedRegisterClient, FileRegister } from './worker-registers.ts';

/**
 * One worker process: it loads the adapter, runs its workloads until it is asked to end, and writes
 * what happens. Only pending calls of the adapter and its own pauses keep it alive, so that a
 * library whose pending call does not is found by the exit.
 */
const STATE_MS = 2_000;
/** How long tasks may take to finish their turn, and the adapter to close. */
const END_MS = 5_000;
/** How long a lock may take to become free after the run, beyond its TTL. */
const PROBE_MS = 8_000;

const plan = JSON.parse(process.argv[2] ?? '{}') as WorkerPlan;
const output = new WorkerOutput(plan);
const registers = { file: new FileRegister(plan.registers), fenced: new FencedRegisterClient() };
let isOver = false;
let endNow: () => void = () => {};
const over = new Promise<void>((resolve) => {
  endNow = resolve;
});

/** Hidden from the compiler, which would make it a `require` that cannot load ES modules. */
const load = new Function('file', 'return import(file)') as (file: string) => Promise<{ default: unknown }>;

async function makeAdapter(): Promise<Adapter> {
  const loaded = await load(plan.module);
  // A CommonJS module has its exports as the default.
  const made = (loaded.default as { default?: unknown })?.default ?? loaded.default;
  if (typeof made !== 'function') throw new Error('the module has no function as its default export');
  return await (made as MakeAdapter)({ url: plan.url });
}

/**
 * Busy locks are held for long enough that a mistake lets another holder meet them. The others are
 * free half of the time, so that a request whose reply comes too late is granted. Few holds outlive
 * their TTL.
 */
const BUSY: ReadonlySet<string> = new Set([LOCKS[0], LOCK_OF.fenced]);

function holdMs(lock: string, random: () => number): number {
  const chance = random();
  if (chance < (BUSY.has(lock) ? 0.03 : 0.01)) return plan.ttlMs * 1.3;
  return chance < (BUSY.has(lock) ? 0.33 : 0.1) ? 100 + random() * 300 : random() * 25;
}

/** One turn: acquire, work under the lock, release. */
async function turn(
  adapter: Adapter,
  workload: Workload,
  process: number,
  random: () => number,
): Promise<void> {
  const lock =
    workload === 'lock' ? (LOCKS[Math.floor(random() * LOCKS.length)] ?? LOCKS[0]) : LOCK_OF[workload];
  const weight = workload === 'shared' && random() < 0.8 ? 1 : workload === 'permits' ? 1 : undefined;
  const recorder = new HoldRecorder(output, process, lock, weight);
  const held = await recorder.acquire(() => acquireOf(adapter, workload, weight)(lock, plan.ttlMs));
  if (held === null) return;
  const forMs = holdMs(lock, random);
  if (workload === 'register') await changeFile(recorder, lock, process, forMs);
  else if (workload === 'fenced' && held.fence !== undefined)
    await changeFenced(recorder, lock, process, forMs, held);
  else await recorder.stay(forMs);
  await recorder.release();
}

/** Reads, waits and writes, each only while the library says that the lock is held. */
async function changeFile(
  recorder: HoldRecorder,
  lock: string,
  process: number,
  forMs: number,
): Promise<void> {
  if (!recorder.check()) return;
  output.event(process, 'invoke', 'read', lock);
  const value = registers.file.read(lock);
  output.event(process, 'ok', 'read', lock, { value });
  await recorder.stay(forMs);
  if (!recorder.check()) return;
  output.event(process, 'invoke', 'write', lock, { value: value + 1 });
  registers.file.write(lock, value + 1);
  // A process that is stopped right here has written too late, and can only learn of it afterwards.
  output.event(process, recorder.check() ? 'ok' : 'info', 'write', lock, { value: value + 1 });
}

/**
 * Writes without asking whether the lock is held: the register has to refuse what comes too late.
 */
async function changeFenced(
  recorder: HoldRecorder,
  lock: string,
  process: number,
  forMs: number,
  held: Held,
): Promise<void> {
  const fence = String(held.fence);
  output.event(process, 'invoke', 'read', lock, { fence });
  const read = await registers.fenced.request({ lock, fence });
  output.event(process, read.isAccepted ? 'ok' : 'fail', 'read', lock, { fence, value: read.value });
  if (!read.isAccepted) return;
  await recorder.stay(forMs);
  const value = read.value + 1;
  output.event(process, 'invoke', 'write', lock, { fence, value });
  const written = await registers.fenced.request({ lock, fence, value });
  output.event(process, written.isAccepted ? 'ok' : 'fail', 'write', lock, { fence, value });
}

async function work(
  adapter: Adapter,
  workload: Workload,
  process: number,
  random: () => number,
): Promise<void> {
  while (!isOver) {
    await turn(adapter, workload, process, random);
    // A fence must also rise after the lock was unused for longer than its TTL.
    const pauseMs = workload === 'seldom' ? plan.ttlMs * (1.25 + random() / 2) : random() * 50;
    await Promise.race([over, sleep(pauseMs)]);
  }
}

/** After the run: each lock must be free, or become so within its TTL. */
async function probe(adapter: Adapter, locks: readonly string[]): Promise<void> {
  for (const lock of locks) {
    const startedMs = performance.now();
    const limitMs = plan.ttlMs + PROBE_MS;
    let held: Held | null = null;
    while (held === null && performance.now() - startedMs < limitMs) {
      const late = sleep(limitMs, null);
      held = await Promise.race([adapter.acquire(lock, plan.ttlMs).catch(() => null), late]);
      if (held === null) await sleep(100);
    }
    output.note({ kind: 'recovery', isFree: held !== null, tookMs: performance.now() - startedMs }, lock);
    await held?.release().catch(() => {});
  }
}

function watchProcess(): void {
  const { worker } = plan;
  process.on('unhandledRejection', (reason) => output.problem(worker, 'rejection', reason));
  process.on('uncaughtException', (error) => {
    output.problem(worker, 'exception', error);
    process.exit(70);
  });
  process.on('warning', (warning) => output.problem(worker, 'warning', warning));
  process.on('message', (message) => {
    if (message === 'end') {
      isOver = true;
      endNow();
    } else registers.fenced.onReply(message as never);
  });
  process.channel?.unref();
  setInterval(() => output.state(worker), STATE_MS).unref();
}

async function main(): Promise<void> {
  watchProcess();
  const adapter = await makeAdapter();
  output.note({ kind: 'adapter', name: String(adapter.name), isFair: adapter.isFair === true });
  if (adapter.permits !== undefined)
    output.note({ kind: 'capacity', permits: adapter.permits }, LOCK_OF.permits);
  if (plan.probe !== undefined) await probe(adapter, plan.probe);
  else {
    const tasks = plan.workloads
      .filter((workload) => workload !== 'shared' || adapter.acquireShared !== undefined)
      .filter((workload) => workload !== 'permits' || adapter.acquirePermit !== undefined)
      .map((workload, n) =>
        work(adapter, workload, plan.firstProcess + n, randomFrom(plan.seed + n * 7_919)),
      );
    await Promise.race([Promise.all(tasks), over.then(() => sleep(END_MS))]);
  }
  output.state(plan.worker);
  const isClosed = await Promise.race([adapter.close().then(() => true), sleep(END_MS, false)]);
  if (!isClosed) output.problem(plan.worker, 'hang', new Error('close() did not settle'));
  output.note({ kind: 'end' });
  process.exit(0);
}

main().catch((error: unknown) => {
  output.problem(plan.worker, 'start', error);
  process.exit(START_FAILED);
});
