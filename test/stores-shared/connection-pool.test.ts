import { expect, it } from 'vitest';
import { StoreError, UnsupportedError } from '../../src/errors.ts';
import { ConnectionPool, type PooledConnection } from '../../src/stores/shared/connection-pool.ts';
import { virtualClock } from '../../src/testing/index.ts';

/** A pool of at most two connections. `server.isAway` makes connecting fail. `closed`: how many. */
function setUp() {
  const clock = virtualClock();
  const server = { isAway: false, closed: 0 };
  const pool = new ConnectionPool<PooledConnection>({
    clock,
    max: 2,
    schema: {
      migrates: true,
      isMigrated: async () => true,
      migrate: async () => {},
      missing: () => new UnsupportedError('no tables'),
    },
    async connect() {
      if (server.isAway) throw new Error('connection refused');
      const close = async (): Promise<void> => {
        server.closed += 1;
      };
      return { isOpen: true, setKeepAlive() {}, destroy() {}, close, run: async () => [] };
    },
    notBegun: (cause) => new StoreError('away', { cause, applied: 'no' }),
  });
  const free = (): Promise<Error | null> => new Promise((resolve) => pool.whenFree(resolve));
  return { clock, server, pool, free };
}

it('opens another connection after a failure, although the busy one stays busy', async () => {
  const { clock, server, pool, free } = setUp();
  expect(await free()).toBeNull();
  pool.take(true);
  server.isAway = true;
  const second = free();
  await clock.advance(20);
  server.isAway = false;
  let refusal: Error | null | undefined;
  void second.then((outcome) => {
    refusal = outcome;
  });
  await clock.advance(1_000);
  expect(refusal).toBeNull();
  expect(pool.hasFree).toBe(true);
});

it('gives the reason why none can be opened, when none is busy', async () => {
  const { server, free } = setUp();
  server.isAway = true;
  expect(await free()).toMatchObject({ code: 'STORE', message: 'away', applied: 'no' });
});

it('waits for the next try without keeping the process alive: a renewal may be all that waits', async () => {
  const { clock, server, free } = setUp();
  const kept: unknown[] = [];
  const { startTimer } = clock;
  clock.startTimer = (ms, fire, options) => {
    kept.push(options?.keepAlive);
    return startTimer.call(clock, ms, fire, options);
  };
  server.isAway = true;
  expect(await free()).not.toBeNull();
  const next = free();
  await clock.settle();
  expect(kept).toEqual([undefined]);
  server.isAway = false;
  await clock.advance(1_000);
  expect(await next).toBeNull();
});

it('closes a connection that no request has taken', async () => {
  const { clock, server, pool, free } = setUp();
  // The caller has given up meanwhile, so nothing is taken.
  expect(await free()).toBeNull();
  expect(pool.hasFree).toBe(true);
  await clock.advance(30_000);
  expect([pool.hasFree, server.closed]).toEqual([false, 1]);
});

it('has no free connection once it is closed, and says so', async () => {
  const { pool, free } = setUp();
  expect(await free()).toBeNull();
  await pool.close();
  expect(pool.hasFree).toBe(false);
  expect(await free()).toMatchObject({ code: 'CLOSED' });
});
