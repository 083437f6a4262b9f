import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type AcquireOptions, type Hold, type Locks, openLocks } from '../../../src/index.ts';
import { randomFrom } from '../../../src/torture/random.ts';

/**
 * Acquires locks until SIGTERM, or until its time is over, and prints when it holds one. Only its
 * own work and its pending calls keep it alive.
 *
 * Lines: `b` it can be asked to end; `h KEY LOCK FENCE MS` a hold begins; `t KEY MS` it still
 * holds; `e KEY` it has ended; `c CODE` a call was refused; `s HEAP CPU RESOURCES` its state; `p
 * TEXT` a problem; `end`.
 */
const [
  ,
  ,
  url = '',
  untilText = '0',
  ttlText = '0',
  locksText = '1',
  tasksText = '1',
  seedText = '1',
  plant = '',
] = process.argv;
const [untilMs, ttlMs, lockCount, tasks] = [untilText, ttlText, locksText, tasksText].map(Number) as [
  number,
  number,
  number,
  number,
];
const TICK_MS = 15;
const STATE_MS = 5_000;
/**
 * Calls may take this much longer than they may wait: a stop of this process, the time limit of a
 * command, a busy host.
 */
const SLACK_MS = 30_000;
const EXPECTED = new Set(['STORE', 'QUORUM', 'ACQUIRE_TIMEOUT', 'HOLD_LOST', 'QUEUE_FULL', 'ENOUGH']);

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const write = (...words: (string | number | bigint)[]): void => void writeSync(1, `${words.join(' ')}\n`);
const problem = (text: string): void => write('p', text.replaceAll('\n', ' | '));

/** Seeded, so that a run can be repeated. */
const random = randomFrom(Number(seedText));

let keys = 0;
let isOver = false;
/** Planted: a program that trusts its hold for ever. */
const isHeld = (hold: Hold): boolean => plant === 'no-deadline' || hold.remainingMs > 0;

/**
 * The time is read before the hold is checked: a hold that is valid now was valid then.
 */
async function keep(hold: Hold, lock: string, forMs: number): Promise<void> {
  keys += 1;
  const key = keys;
  let atMs = nowMs();
  if (!isHeld(hold)) return;
  write('h', key, lock, hold.fence, atMs.toFixed(3));
  for (const endMs = atMs + forMs; ; ) {
    if (atMs < endMs) await sleep(Math.min(TICK_MS, endMs - atMs));
    atMs = nowMs();
    if (!isHeld(hold)) break;
    write('t', key, atMs.toFixed(3));
    if (atMs >= endMs) break;
  }
  write('e', key);
}

function wayOf(): { options: AcquireOptions; isTry: boolean; cancel(): void } {
  const way = random();
  if (way < 0.1) return { options: {}, isTry: true, cancel: () => {} };
  if (way < 0.2)
    return { options: { waitMs: 1 + Math.floor(random() * 200) }, isTry: false, cancel: () => {} };
  if (way < 0.3) {
    const controller = new AbortController();
    const reason = Object.assign(new Error('enough'), { code: 'ENOUGH' });
    const timer = setTimeout(() => controller.abort(reason), random() * 300);
    return { options: { signal: controller.signal }, isTry: false, cancel: () => clearTimeout(timer) };
  }
  return { options: { waitMs: 10_000 }, isTry: false, cancel: () => {} };
}

async function take(locks: Locks): Promise<void> {
  const lock = `torture-${Math.floor(random() * lockCount)}`;
  const { options, isTry, cancel } = wayOf();
  const startedMs = nowMs();
  try {
    const mutex = locks.mutex(lock);
    const hold = isTry ? await mutex.tryAcquire() : await mutex.acquire(options);
    if (hold === null) return;
    await keep(hold, lock, random() < 0.015 ? ttlMs * 1.3 : random() * 25);
    await hold.release();
  } catch (error) {
    const { code, message } = error as { code?: string; message?: string };
    if (code !== undefined && EXPECTED.has(code)) write('c', code);
    else problem(`unexpected: ${code ?? ''} ${message ?? String(error)}`);
  } finally {
    cancel();
    const tookMs = nowMs() - startedMs;
    if (tookMs > (options.waitMs ?? 10_000) + ttlMs * 4 + SLACK_MS) problem(`late: a turn took ${tookMs} ms`);
  }
}

async function work(locks: Locks): Promise<void> {
  while (!isOver && nowMs() < untilMs) {
    if (plant === 'silent-exit' && random() < 0.02) process.exit(0);
    if (plant !== 'idle') await take(locks);
    await sleep(random() * 40);
  }
}

function sayState(): void {
  globalThis.gc?.();
  const { user, system } = process.cpuUsage();
  write('s', process.memoryUsage().heapUsed, user + system, process.getActiveResourcesInfo().length);
}

async function main(): Promise<void> {
  // A signal handler does not keep the process alive.
  process.once('SIGTERM', () => {
    isOver = true;
  });
  write('b');
  process.on('warning', (warning) => problem(`warning: ${warning.name} ${warning.message}`));
  const locks = await openLocks(url, { ttlMs, waitMs: 10_000, connect: false });
  const timer = setInterval(sayState, STATE_MS);
  timer.unref();
  await Promise.all(Array.from({ length: tasks }, () => work(locks)));
  sayState();
  await locks.close();
  write('end');
}

main().catch((error: unknown) => {
  const { code, message } = error as { code?: string; message?: string };
  // A store that is out of reach at this moment may be refused by `openLocks`; a new worker tries again.
  if (code === 'STORE' || code === 'QUORUM') write('c', code);
  else problem(`failed: ${code ?? ''} ${message ?? String(error)}`);
  write('end');
});
