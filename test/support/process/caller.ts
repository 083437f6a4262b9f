import { readSync, writeSync } from 'node:fs';
import { type Hold, type Locks, openLocks } from '../../../src/index.ts';

/**
 * An ordinary program: it makes one call after the other, each through locks of its own, and nothing else
 * keeps it alive. It reads from its parent by blocking, without a handle. Arguments: the URL, the
 * situation, then the calls.
 */
const [, , url = '', situation = '', ...calls] = process.argv;
const TTL_MS = 10_000;
const PER_MS = 600;

const say = (...words: string[]): void => void writeSync(1, `${words.join(' ')}\n`);
const waitForParent = (): void => void readSync(0, Buffer.alloc(1));

type Call = (locks: Locks, name: string, hold: Hold | null) => Promise<unknown>;

const CALLS: Readonly<Record<string, Call>> = {
  acquire: (locks, name) => locks.mutex(name).acquire(),
  run: async (locks, name) => {
    let hasRun = false;
    await locks.mutex(name).run(() => {
      hasRun = true;
    });
    if (!hasRun) throw new Error('run resolved without having run its function');
  },
  tryAcquire: (locks, name) => locks.mutex(name).tryAcquire(),
  all: (locks, name) => locks.all([name, `${name} too`]).acquire(),
  lead: async (locks, name) => {
    let hasLed = false;
    await locks.election(name).lead(async () => {
      hasLed = true;
    });
    if (!hasLed) throw new Error('lead resolved without having run its function');
  },
  extend: async (_locks, _name, hold) => await hold?.extend(),
  release: async (_locks, _name, hold) => await hold?.release(),
  once: (locks, name) => locks.once(name, () => 1),
  take: (locks, name) => locks.rateLimit(name, { permits: 1, perMs: PER_MS }).take(),
  tryTake: (locks, name) => locks.rateLimit(name, { permits: 1, perMs: PER_MS }).tryTake(),
  inspect: (locks, name) => locks.inspect(name),
  close: (locks) => locks.close({ drainMs: 0 }),
};
const NEEDS_HOLD = new Set(['extend', 'release', 'close']);

const codeOf = (error: unknown): string => {
  const { code, message } = error as { code?: string; message: string };
  return code ?? `without a code: ${message}`;
};
const outcomeOf = async (call: Promise<unknown>): Promise<string> =>
  await call.then(
    () => 'done',
    (error: unknown) => `rejected ${codeOf(error)}`,
  );

/**
 * Where no other process can hold the lock, this one does; the timer that releases it keeps nothing
 * alive.
 */
async function holdInProcess(locks: Locks, name: string): Promise<void> {
  if (url !== 'memory:') return;
  const hold = await locks.mutex(name).acquire();
  setTimeout(() => void hold.release(), 300).unref();
}

async function make(call: string): Promise<string> {
  const name = `${situation} ${call}`;
  const waitMs = situation === 'gone' ? 500 : 20_000;
  const renewal = situation.startsWith('thread ') ? 'thread' : 'inline';
  const open = (): Promise<Locks> => openLocks(url, { ttlMs: TTL_MS, waitMs, connect: false, renewal });
  if (situation === 'connecting') {
    say('ready', call);
    waitForParent();
    const pending = open().then(async (locks) => {
      try {
        await CALLS[call]?.(locks, name, null);
      } finally {
        await locks.close({ drainMs: 0 });
      }
    });
    say('began');
    const outcome = await outcomeOf(pending);
    say('answered');
    waitForParent();
    return outcome;
  }
  const locks = await open();
  // A long wait, also before a short call: on a busy machine even a good connection is slow.
  await locks.withLock(`${name} first`, () => {}, { waitMs: 25_000 });
  const hold = NEEDS_HOLD.has(call) ? await locks.mutex(name).acquire({ waitMs: 25_000 }) : null;
  if (!NEEDS_HOLD.has(call)) await holdInProcess(locks, name);
  say('ready', call);
  waitForParent();
  const pending = outcomeOf(CALLS[call]?.(locks, name, hold) ?? Promise.reject(new Error(`no ${call}`)));
  const closing = situation === 'closing' ? locks.close({ drainMs: 0 }) : null;
  say('began');
  const outcome = await pending;
  await closing;
  say('answered');
  waitForParent();
  await locks.close({ drainMs: 0 });
  return outcome;
}

async function main(): Promise<void> {
  for (const call of calls) say('outcome', call, await make(call));
  say('end');
}

main().catch((error: unknown) => {
  say('failed', error instanceof Error ? (error.stack ?? error.message).replaceAll('\n', ' | ') : `${error}`);
  process.exitCode = 1;
});
