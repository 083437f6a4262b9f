import { spawn } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { sqliteFenceGate } from '../../../src/fence/index.ts';
import { createLocks, type Hold } from '../../../src/index.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { type LibraryName, openWith } from './libraries.ts';

// One process. Its arguments and the lines of its standard input say what it does. It prints one
// JSON object a line.

const [library, path, verb, name = '', ...rest] = process.argv.slice(2) as [
  LibraryName | 'any',
  string,
  string,
  ...string[],
];
const say = (message: object): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const nextLine = async (): Promise<string | null> => {
  const { done, value } = await lines.next();
  return done === true ? null : value;
};

function open() {
  if (library === 'any') return sqliteStore(path);
  const database = openWith(library, path);
  const store = sqliteStore(database);
  database.close();
  return store;
}

/** Holds a lock until a line says `release`. Other lines make it do something else meanwhile. */
async function hold(ttlMs: number): Promise<void> {
  const locks = createLocks(open());
  const held = await locks.mutex(name).acquire({ ttlMs, waitMs: 60_000 });
  held.signal.addEventListener('abort', () => say({ lost: (held.signal.reason as { how: string }).how }));
  say({ held: held.fence.toString() });
  for (let line = await nextLine(); line !== null; line = await nextLine()) {
    if (line === 'release') break;
    if (line.startsWith('read ')) readFileSync(line.slice('read '.length));
    if (line === 'fork') spawn('sleep', ['20'], { stdio: 'ignore', detached: true }).unref();
    if (line === 'renew') await held.extend().catch(() => {});
    say({ did: line });
  }
  say({ released: await held.release() });
  await locks.close();
}

/** Holds several locks, separated by commas, for ever. */
async function holdMany(ttlMs: number): Promise<void> {
  const locks = createLocks(open());
  const holds = await Promise.all(name.split(',').map((each) => locks.mutex(each).acquire({ ttlMs })));
  say({ held: holds.map((held) => held.fence.toString()) });
  await nextLine();
}

/**
 * Adds one to a number in a file, with a pause before the write, so that two at once lose an
 * update.
 */
async function count(file: string, times: number): Promise<void> {
  const locks = createLocks(open(), { waitMs: 120_000 });
  const add = async (held: Hold): Promise<void> => {
    const value = Number(readFileSync(file, 'utf8'));
    await sleep(Math.random() * 2);
    held.assertHeld();
    writeFileSync(file, String(value + 1));
  };
  for (let n = 0; n < times; n += 1) await locks.mutex(name).run(add);
  await locks.close();
  say({ counted: times });
}

/** Takes and releases the lock without end, and prints each fence, until a test kills it. */
async function churn(): Promise<void> {
  const locks = createLocks(open(), { ttlMs: 200, waitMs: 30_000 });
  for (;;) {
    const held = await locks.mutex(name).acquire();
    say({ fence: held.fence.toString() });
    await held.release();
  }
}

/**
 * Waits for a lock with this many claims at once, reports each wake-up and grant, and releases at
 * once.
 */
async function wait(ttlMs = 30_000, times = 1): Promise<void> {
  const locks = createLocks(open(), { waitMs: 60_000, ttlMs });
  locks.on('waiting', () => say({ waiting: true }));
  const turn = async (): Promise<void> => {
    const held = await locks.mutex(name).acquire();
    say({ granted: held.fence.toString(), atMs: Number(process.hrtime.bigint()) / 1e6 });
    await held.release();
  };
  await Promise.all(Array.from({ length: times }, turn));
  await locks.close();
}

/** Keeps the database's write lock until a line tells it to continue. */
async function stick(): Promise<void> {
  const database = openWith(library === 'any' ? 'libsql' : library, path);
  database.exec('BEGIN IMMEDIATE');
  say({ stuck: true });
  await nextLine();
  database.exec('ROLLBACK');
  database.close();
}

/** Tries to take a lock once and says what came of it. */
async function tryOnce(): Promise<void> {
  try {
    const locks = createLocks(open());
    const held = await locks.mutex(name).tryAcquire({ ttlMs: Number(rest[0] ?? 30_000) });
    say({ granted: held?.fence.toString() ?? null });
    await locks.close({ drainMs: 0 });
  } catch (error) {
    const { code, message, applied } = error as { code?: string; message: string; applied?: string };
    say({ error: code, message, applied });
  }
}

/**
 * Adds to a balance behind a gate, and never checks its hold: only the gate can refuse a stale
 * write.
 */
async function ledger(file: string): Promise<void> {
  const locks = createLocks(open(), { ttlMs: 1_000, waitMs: 60_000 });
  const database = openWith('libsql', file);
  database.exec('PRAGMA busy_timeout = 5000');
  const gate = sqliteFenceGate(database);
  const add = async (fence: bigint): Promise<void> => {
    // Also before reading: from here on no earlier holder can change the balance.
    gate.checkSync('ledger', fence);
    const [row] = database.prepare('SELECT count(*) AS balance FROM entry').all() as { balance: number }[];
    await sleep(Math.random() * 30);
    database.exec('BEGIN IMMEDIATE');
    try {
      gate.checkSync('ledger', fence);
      database
        .prepare('INSERT INTO entry (fence, balance) VALUES (?, ?)')
        .run(fence, (row?.balance ?? 0) + 1);
      database.exec('COMMIT');
    } catch (error) {
      database.exec('ROLLBACK');
      throw error;
    }
  };
  for (;;) {
    const held = await locks.mutex(name).acquire();
    const refused = await add(held.fence).catch((error: { code?: string }) => error.code ?? 'unknown');
    say(refused === undefined ? { wrote: held.fence.toString() } : { refused });
    await held.release().catch(() => {});
  }
}

/**
 * Takes locks until the disk is full, checks that earlier grants stay, and that space makes it
 * work.
 */
async function fill(): Promise<void> {
  const locks = createLocks(open());
  const filler = `${path}.filler`;
  const holds: Hold[] = [];
  let failure: { code?: string; message?: string } = {};
  writeFileSync(filler, Buffer.alloc(100_000));
  for (let n = 0; n < 5_000 && failure.code === undefined; n += 1) {
    try {
      const held = await locks.mutex(`${name} ${n}`).tryAcquire({ metadata: { filler: 'x'.repeat(500) } });
      if (held !== null) holds.push(held);
    } catch (error) {
      const { code, message } = error as { code: string; message: string };
      failure = { code, message };
    }
  }
  const views = await Promise.all(holds.map((held) => locks.inspect(held.name)));
  const kept = views.every((view, n) => view.holders[0]?.id === holds[n]?.id);
  rmSync(filler);
  const again = (await locks.mutex('room again').tryAcquire()) !== null;
  say({ granted: holds.length, failure, kept, again });
  await locks.close({ drainMs: 0 });
}

const verbs: Record<string, () => Promise<void>> = {
  hold: () => hold(Number(rest[0])),
  holdMany: () => holdMany(Number(rest[0])),
  count: () => count(rest[0] ?? '', Number(rest[1])),
  churn,
  ledger: () => ledger(rest[0] ?? ''),
  fill,
  wait: () => wait(...rest.map(Number)),
  stick,
  try: tryOnce,
};
/** Loads the library first: where it lies, that user may not be able to read it. */
async function become(uid: number): Promise<void> {
  await sqliteStore(':memory:').close();
  process.chdir('/');
  process.setgroups?.([]);
  process.setgid?.(uid);
  process.setuid?.(uid);
}

const uid = process.env.HOLDFAST_WORKER_UID;
if (uid !== undefined) await become(Number(uid));
await verbs[verb]?.();
process.stdin.destroy();
