import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import mysql from 'mysql2/promise';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { type Locks, openLocks } from '../../src/index.ts';
import { BACKENDS, type Backend, type BackendKind, type Route } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { openWith } from '../sqlite/support/libraries.ts';
import { makeCalls, type Outcomes, type Situation } from '../support/process/call-programs.ts';
import { outputOf } from '../support/process/close-and-exit.ts';

const CALLS = ['acquire', 'run', 'tryAcquire', 'extend', 'release', 'once', 'take', 'inspect', 'close'];
/** They are like others of these in most situations, so they are made in few. */
const FURTHER_CALLS = ['all', 'lead', 'tryTake'];
/** How long a call is blocked. */
const WHILE_MS = 350;

/** Calls that the store does not support: they are refused before anything is pending. */
const LEFT_OUT: Partial<Record<BackendKind, readonly string[]>> = {
  redlock: ['take', 'tryTake'],
  advisory: ['once', 'take', 'tryTake'],
  zookeeper: ['once', 'take', 'tryTake'],
};
/** These calls wait until they are no longer blocked: only success will do. */
const MUST_SUCCEED = new Set(['acquire', 'run', 'all', 'lead', 'take', 'close']);

/** The core rejects these only after their whole time limit of five seconds. */
const SLOW_WHEN_GONE = ['release', 'inspect', 'close'];

/**
 * The slowest first, so that the last test to start is not the longest. The client of etcd needs the
 * whole time limit for each call over a failing connection, so its calls are shared by programs.
 */
const ORDER: readonly BackendKind[] = ['etcd', ...BACKENDS.filter((kind) => kind !== 'etcd')];

function sharesOf(kind: BackendKind, calls: readonly string[]): readonly (readonly string[])[] {
  return kind === 'etcd' ? [calls.slice(0, 4), calls.slice(4)] : [calls];
}

/** The outcomes that are wrong, one line each. */
function problemsOf(situation: string, outcomes: Outcomes): string[] {
  const isStrict = situation !== 'closing' && situation !== 'gone';
  return Object.entries(outcomes)
    .filter(([call, outcome]) =>
      isStrict && MUST_SUCCEED.has(call) ? outcome !== 'done' : !/^(?:done|rejected [A-Z_]+)$/.test(outcome),
    )
    .map(([call, outcome]) => `${situation}, ${call}: ${outcome}`);
}

/** What the connections to the servers do while a call is pending. */
const FAILURES: Readonly<Record<string, (route: Route) => void>> = {
  refused: (route) => {
    for (const proxy of route.proxies) {
      proxy.refuse();
      proxy.cut();
    }
  },
  silent: (route) => {
    for (const proxy of route.proxies) proxy.drop('both');
  },
  'lost-reply': (route) => {
    for (const proxy of route.proxies) proxy.drop('toClient');
  },
};
const pass = (route: Route): void => {
  for (const proxy of route.proxies) proxy.pass();
};

function onConnections(name: string, fail: (route: Route) => void, route: Route): Situation {
  return {
    name,
    before: async () => fail(route),
    during: async () => {
      await sleep(WHILE_MS);
      pass(route);
    },
  };
}

/** Another process holds the lock, has filled the window, runs the `once`, or waits for the lock. */
function byAnother(name: string, other: Locks): Situation & AsyncDisposable {
  let letGo = (): void => {};
  const held: Promise<unknown>[] = [];
  const hold = (): { until: Promise<void>; begin(): void; began: Promise<void> } => {
    let begin = (): void => {};
    const began = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const until = new Promise<void>((resolve) => {
      letGo = resolve;
    });
    return { until, begin, began };
  };
  return {
    name,
    async before(call) {
      const lock = `${name} ${call}`;
      const { until, begin, began } = hold();
      const work = async (): Promise<void> => {
        begin();
        await until;
      };
      if (call === 'take' || call === 'tryTake')
        return await other.rateLimit(lock, { permits: 1, perMs: 600 }).take();
      if (call === 'once') held.push(other.once(lock, work));
      else held.push(other.mutex(lock).run(work, { waitMs: 30_000 }));
      // The program itself holds the locks of the other calls, and this process waits for them.
      if (['acquire', 'run', 'tryAcquire', 'all', 'lead', 'once'].includes(call)) await began;
    },
    async during() {
      await sleep(WHILE_MS);
      letGo();
    },
    async [Symbol.asyncDispose]() {
      letGo();
      await Promise.all(held);
      await other.close({ drainMs: 0 });
    },
  };
}

/** Rows, or a file, that another process has locked: the store itself has to wait. */
async function busy(
  name: 'busy' | 'closing',
  { kind, url }: Backend,
): Promise<(Situation & AsyncDisposable) | null> {
  const blocker = BLOCKERS[kind];
  if (blocker === undefined) return null;
  const { lock, unlock, end } = await blocker(url);
  return {
    name,
    before: lock,
    during: async () => {
      await sleep(WHILE_MS);
      await unlock();
    },
    [Symbol.asyncDispose]: end,
  };
}

interface Blocker {
  lock(call: string): Promise<void>;
  unlock(): Promise<void>;
  end(): Promise<void>;
}

/** Makes the row that is locked next, unless the program itself has made it. */
async function makeRow(other: Locks, call: string, name: string): Promise<void> {
  if (call === 'once') await other.once(name, () => 1, { rememberMs: 1 });
  else if (call === 'take' || call === 'tryTake')
    await other.rateLimit(name, { permits: 1, perMs: 600 }).take();
  else if (['acquire', 'run', 'tryAcquire', 'all', 'lead'].includes(call))
    await other.withLock(name, () => 1);
}

/** `lockRows` resolves to how many rows it has locked, until `unlock`. */
async function rowLock(
  url: string,
  rows: { lockRows(like: string): Promise<number>; unlock(): Promise<unknown>; end(): Promise<void> },
): Promise<Blocker> {
  const other = await openLocks(url);
  return {
    lock: async (call) => {
      const name = `busy ${call}`;
      await makeRow(other, call, name);
      if ((await rows.lockRows(`%${name}`)) === 0 && call !== 'inspect') throw new Error(`no row of ${name}`);
    },
    unlock: async () => void (await rows.unlock()),
    end: async () => {
      await other.close();
      await rows.end();
    },
  };
}

async function postgresLock(url: string): Promise<Blocker> {
  const client = new pg.Client({ connectionString: url.replace(/\?.*/, '') });
  await client.connect();
  return await rowLock(url, {
    lockRows: async (like) => {
      await client.query('BEGIN');
      const found = await client.query('SELECT 1 FROM holdfast.locks WHERE name LIKE $1 FOR UPDATE', [like]);
      return found.rowCount ?? 0;
    },
    unlock: () => client.query('COMMIT'),
    end: () => client.end(),
  });
}

async function mysqlLock(url: string): Promise<Blocker> {
  const client = await mysql.createConnection(url);
  // So that rows of other names are not locked.
  await client.query('SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED');
  return await rowLock(url, {
    lockRows: async (like) => {
      await client.query('START TRANSACTION');
      const [found] = await client.query('SELECT 1 FROM holdfast_locks WHERE name LIKE ? FOR UPDATE', [like]);
      return (found as unknown[]).length;
    },
    unlock: () => client.query('COMMIT'),
    end: () => client.end(),
  });
}

async function fileLock(url: string): Promise<Blocker> {
  const path = url.replace(/^sqlite:/, '');
  const database = openWith('libsql', path);
  return {
    lock: async () => void database.exec('BEGIN IMMEDIATE'),
    unlock: async () => void database.exec('COMMIT'),
    end: async () => void database.close(),
  };
}

const BLOCKERS: Partial<Record<BackendKind, (url: string) => Promise<Blocker>>> = {
  postgres: postgresLock,
  mysql: mysqlLock,
  sqlite: fileLock,
};

/** The servers do not come back while the call is pending. */
function gone(route: Route): Situation {
  return {
    name: 'gone',
    before: async () => FAILURES.refused?.(route),
    during: async () => {},
    after: () => pass(route),
  };
}

describe.concurrent('a program with a pending call runs until the call has settled', () => {
  it('on memory', async () => {
    const none = { before: async () => {}, during: async () => {} };
    const calls = [...CALLS, ...FURTHER_CALLS].filter((call) => call !== 'take' && call !== 'tryTake');
    for (const name of ['held', 'closing'])
      expect(problemsOf(name, await makeCalls('memory:', { name, ...none }, calls))).toEqual([]);
  });

  it.each(ORDER)(
    'on %s',
    async (kind) => {
      const isMade = (call: string): boolean => LEFT_OUT[kind]?.includes(call) !== true;
      const calls = CALLS.filter(isMade);
      const allCalls = [...calls, ...FURTHER_CALLS.filter(isMade)];
      const found: [string, Outcomes][] = [];
      await using backend = await startBackend(kind);
      // Prepares the store, so that no program has to.
      const other = await openLocks(backend.url, { ttlMs: 10_000, waitMs: 30_000, connect: false });
      await other.withLock('prepared', () => 1);
      const onRoute = async (of: (route: Route) => Situation, some: readonly string[]): Promise<void> => {
        const isShared = kind === 'sentinel' || kind === 'cluster';
        await using own = isShared ? await startBackend(kind) : null;
        const route = await (own ?? backend).route();
        const situation = of(route);
        found.push([situation.name, await makeCalls(route.url, situation, some)]);
      };
      const withAnother = async (): Promise<void> => {
        await using situation = byAnother('held', other);
        found.push(['held', await makeCalls((await backend.route()).url, situation, allCalls)]);
      };
      const withBusy = async (name: 'busy' | 'closing'): Promise<void> => {
        await using situation = await busy(name, backend);
        if (situation !== null) found.push([name, await makeCalls(backend.url, situation, allCalls)]);
      };
      const connecting = calls.filter((call) => call !== 'extend' && call !== 'release');
      const goneGroups = [
        calls.filter((call) => !SLOW_WHEN_GONE.includes(call)),
        ...SLOW_WHEN_GONE.map((call) => [call]),
      ];
      const failures = Object.entries(FAILURES);
      const onEach = (name: string, fail: (route: Route) => void, all: readonly string[]) =>
        sharesOf(kind, all).map((share) => onRoute((route) => onConnections(name, fail, route), share));
      const programs =
        kind === 'sqlite'
          ? []
          : [
              ...failures.flatMap(([name, fail]) => onEach(name, fail, calls)),
              ...onEach('closing', FAILURES.silent ?? pass, allCalls),
              ...onEach('connecting', FAILURES.silent ?? pass, connecting),
              ...goneGroups.map((group) => onRoute(gone, group)),
            ];
      await Promise.all([withAnother(), ...programs]);
      await withBusy('busy');
      if (kind === 'sqlite') await withBusy('closing');
      expect(found.flatMap(([name, outcomes]) => problemsOf(name, outcomes))).toEqual([]);
    },
    120_000,
  );
});

describe('a program whose holds a thread renews runs until its call has settled', () => {
  // A store that the caller's thread uses too, and one that lives in the thread.
  it.each(['redis', 'advisory'] as const)(
    'on %s',
    async (kind) => {
      await using backend = await startBackend(kind);
      const calls = ['acquire', 'run', 'tryAcquire', 'extend', 'release', 'inspect', 'close'];
      const other = await openLocks(backend.url, { ttlMs: 10_000, waitMs: 30_000 });
      await using held = byAnother('thread held', other);
      const route = await backend.route();
      const refused = onConnections('thread refused', FAILURES.refused ?? pass, route);
      const problems = [
        ...problemsOf(held.name, await makeCalls(backend.url, held, calls)),
        ...problemsOf(refused.name, await makeCalls(route.url, refused, calls)),
      ];
      expect(problems).toEqual([]);
    },
    120_000,
  );
});

const IDLE = fileURLToPath(new URL('../redis/support/idle-program.ts', import.meta.url));
/** The stores of Redis have a test of their own, with each client library. */
const NOT_REDIS: readonly BackendKind[] = ['sqlite', 'postgres', 'advisory', 'mysql', 'etcd', 'zookeeper'];

describe('a program that has nothing left to do ends without close', () => {
  it.each(NOT_REDIS)('on %s', async (kind) => {
    await using backend = await startBackend(kind);
    // gRPC keeps the process alive while a watch is open, and an observer that was not ended has one.
    const observes = kind === 'etcd' ? 'no' : 'yes';
    expect(await outputOf(IDLE, [backend.url, '', observes])).toBe('done and ended');
  });
});
