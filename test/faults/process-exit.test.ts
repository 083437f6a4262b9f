import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import { describe, expect, it } from 'vitest';
import { type Locks, openLocks } from '../../src/index.ts';
import { BACKENDS, type Backend, type BackendKind, type Route } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { openWith } from '../sqlite/support/libraries.ts';
import { makeCalls, type Outcomes, type Situation } from '../support/process/call-programs.ts';
import { outputOf } from '../support/process/close-and-exit.ts';

const CALLS = ['acquire', 'run', 'tryAcquire', 'extend', 'release', 'once', 'take', 'inspect', 'close'];
/** How long a call is blocked. */
const WHILE_MS = 350;

/** Calls that the store does not support: they are refused before anything is pending. */
const LEFT_OUT: Partial<Record<BackendKind, readonly string[]>> = {
  redlock: ['take'],
  advisory: ['once', 'take'],
  zookeeper: ['once', 'take'],
};
/** These calls wait until they are no longer blocked: only success will do. */
const MUST_SUCCEED = new Set(['acquire', 'run', 'take', 'close']);

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
      if (call === 'take') return await other.rateLimit(lock, { permits: 1, perMs: 600 }).take();
      if (call === 'once') held.push(other.once(lock, work));
      else held.push(other.mutex(lock).run(work, { waitMs: 30_000 }));
      // The program itself holds the locks of the other calls, and this process waits for them.
      if (['acquire', 'run', 'tryAcquire', 'once'].includes(call)) await began;
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
async function busy(backend: Backend): Promise<(Situation & AsyncDisposable) | null> {
  if (backend.kind !== 'postgres' && backend.kind !== 'sqlite') return null;
  const { lock, unlock, end } = await (backend.kind === 'postgres' ? rowLock : fileLock)(backend.url);
  return {
    name: 'busy',
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

async function rowLock(url: string): Promise<Blocker> {
  const client = new pg.Client({ connectionString: url.replace(/\?.*/, '') });
  await client.connect();
  const other = await openLocks(url);
  return {
    lock: async (call) => {
      const name = `busy ${call}`;
      // Makes the row that is locked below.
      if (call === 'once') await other.once(name, () => 1, { rememberMs: 1 });
      else if (call === 'take') await other.rateLimit(name, { permits: 1, perMs: 600 }).take();
      else if (['acquire', 'run', 'tryAcquire'].includes(call)) await other.withLock(name, () => 1);
      await client.query('BEGIN');
      const rows = await client.query('SELECT 1 FROM holdfast.locks WHERE name LIKE $1 FOR UPDATE', [
        `%${name}`,
      ]);
      if (rows.rowCount === 0 && call !== 'inspect') throw new Error(`no row of ${name}`);
    },
    unlock: async () => void (await client.query('COMMIT')),
    end: async () => {
      await other.close();
      await client.end();
    },
  };
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
    const calls = CALLS.filter((call) => call !== 'take');
    for (const name of ['held', 'closing'])
      expect(problemsOf(name, await makeCalls('memory:', { name, ...none }, calls))).toEqual([]);
  });

  it.each(ORDER)(
    'on %s',
    async (kind) => {
      const calls = CALLS.filter((call) => !LEFT_OUT[kind]?.includes(call));
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
        found.push(['held', await makeCalls((await backend.route()).url, situation, calls)]);
      };
      const withBusy = async (): Promise<void> => {
        await using situation = await busy(backend);
        if (situation !== null) found.push(['busy', await makeCalls(backend.url, situation, calls)]);
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
              ...onEach('closing', FAILURES.silent ?? pass, calls),
              ...onEach('connecting', FAILURES.silent ?? pass, connecting),
              ...goneGroups.map((group) => onRoute(gone, group)),
            ];
      await Promise.all([withAnother(), ...programs]);
      await withBusy();
      expect(found.flatMap(([name, outcomes]) => problemsOf(name, outcomes))).toEqual([]);
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
