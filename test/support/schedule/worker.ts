import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { systemClock } from '../../../src/clock.ts';
import { createLocks, type Hold, openLocks } from '../../../src/index.ts';
import { type Schedule, schedule } from '../../../src/schedule/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';

/**
 * A process with two schedules, `skip` and `once`, that have a slot every second, and with a clock
 * of its own. Writes down each run. Ends at SIGTERM.
 *
 * Lines: `b` it can be asked to end; `s KEY SCHEDULE SLOT FENCE MS` a run starts; `t KEY MS` it
 * still holds; `e KEY MS` its function returns; `l KEY MS` its hold was lost; `r KEY MS` its hold
 * was released; `p TEXT` a problem; `end`.
 */
const [, , url = '', shiftText = '0', ttlText = '2000', plant = ''] = process.argv;
const [shiftMs, ttlMs] = [Number(shiftText), Number(ttlText)];
const EVERY_SECOND = '* * * * * *';
const SECOND_MS = 1_000;
const BEAT_MS = 20;
/** Most runs are shorter than the interval, some are longer. */
const RUN_MS = [150, 150, 400, 400, 700, 1_600];

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;
const write = (...words: (string | number | bigint)[]): void => void writeSync(1, `${words.join(' ')}\n`);
process.on('warning', ({ message }) => write('p', message.replaceAll('\n', ' | ')));

const isOver = new AbortController();
const ended = new Promise<void>((resolve) => {
  process.once('SIGTERM', () => {
    isOver.abort();
    resolve();
  });
});
write('b');

const wallMs = (): number => systemClock.wallMs() + shiftMs;
const options = { ttlMs, clock: { ...systemClock, wallMs } };
// The processes that share a file are on one host and must share its clock, as far as the store goes.
const locks = url.startsWith('sqlite:')
  ? createLocks(sqliteStore(url.slice('sqlite:'.length)), options)
  : await openLocks(url, { ...options, connect: false });
const keys = new Map<string, number>();
let started = 0;

/** The time is read before the hold is looked at: a hold that is good now was good then. */
async function work(name: string, slotMs: number, hold: Hold, signal: AbortSignal): Promise<void> {
  started += 1;
  const key = started;
  keys.set(hold.id, key);
  let atMs = nowMs();
  write('s', key, name, slotMs, hold.fence, atMs);
  const runMs = RUN_MS[(slotMs / SECOND_MS) % RUN_MS.length] ?? 0;
  for (const endMs = atMs + runMs; atMs < endMs; atMs = nowMs()) {
    if (hold.remainingMs <= 0) {
      write('l', key, atMs);
      return;
    }
    write('t', key, atMs);
    await sleep(BEAT_MS);
    // Asked to end: what is interrupted is not completed.
    if (hold.remainingMs > 0) signal.throwIfAborted();
  }
  write(hold.remainingMs > 0 ? 'e' : 'l', key, atMs);
}

locks.on('released', ({ id }) => {
  const key = keys.get(id);
  if (key !== undefined) write('r', key, nowMs());
});

/** Planted: what people write without a schedule. Two processes that fire a moment apart both run. */
async function runNaively(name: string): Promise<void> {
  while (!isOver.signal.aborted) {
    await sleep(SECOND_MS - (wallMs() % SECOND_MS));
    const slotMs = Math.floor(wallMs() / SECOND_MS) * SECOND_MS;
    const tryRun = locks.mutex(name).tryRun((hold) => work(name, slotMs, hold, hold.signal));
    await tryRun.catch(() => {});
  }
}

if (plant === 'naive') {
  await Promise.all([runNaively('skip'), runNaively('once')]);
} else {
  const onError = (error: unknown): void => {
    const { code } = error as { code?: string };
    if (code !== 'HOLD_LOST' && code !== 'CLOSED') write('p', `onError: ${error}`);
  };
  const jobs: Schedule[] = (['skip', 'once'] as const).map((missed) =>
    schedule(
      locks,
      missed,
      EVERY_SECOND,
      ({ name, slot, hold, signal }) => work(name, slot.getTime(), hold, signal),
      { missed, onError },
    ),
  );
  await ended;
  await Promise.all(jobs.map((job) => job.stop()));
}
await locks.close({ drainMs: 0 });
write('end');
