import { afterEach, describe, expect, it, vi } from 'vitest';
import { type Locks, openLocks } from '../../../src/index.ts';
import { IOREDIS } from '../../../src/stores/redis/client-library.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { claimedNames } from '../../redis/support/claimed-names.ts';
import { startStage } from '../../redis/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
const closers: Array<() => Promise<void>> = [];
afterEach(async () => {
  vi.restoreAllMocks();
  for (const close of closers.splice(0)) await close();
});

/** A path to the server that can drop the packets of its connections while new ones work. */
interface Route {
  readonly port: number;
  /** Swallows everything on the connections that are open now. Returns their link. */
  swallowOpen(): FaultProxy;
}

async function startRoute(): Promise<Route> {
  let behind = stage.proxy.port;
  const front = await startFaultProxy(() => behind);
  closers.push(async () => {
    stage.proxy.pass();
    await front.stop();
  });
  return {
    port: front.port,
    swallowOpen: () => {
      stage.proxy.drop('both');
      behind = stage.server.port;
      return stage.proxy;
    },
  };
}

async function open(url: string, library: (typeof LIBRARIES)[number]): Promise<Locks> {
  if (library === 'node-redis') vi.spyOn(IOREDIS, 'load').mockResolvedValue(undefined);
  const locks = await openLocks(url);
  closers.unshift(() => locks.close({ drainMs: 0 }));
  return locks;
}

/** The time limits of a command and of a probe, with room for a busy machine. */
const BOUND_MS = 60_000;

describe.each(LIBRARIES)('row 21: a connection that stays silent, of our own client of %s', (library) => {
  it.each(['redis', 'redlock'])(
    'is replaced by %s:, which does not send again',
    async (scheme) => {
      const route = await startRoute();
      const locks = await open(`${scheme}://127.0.0.1:${route.port}`, library);
      await (await locks.mutex('warm').acquire()).release();
      const claimed = await claimedNames(stage.admin);
      route.swallowOpen();
      await expect(locks.mutex('given up').tryAcquire()).rejects.toThrow(/answer/);
      const hold = await locks.mutex('after').acquire({ waitMs: BOUND_MS });
      expect(await hold.release()).toBe(true);
      await eventually('the claim is seen', () => claimed.includes('holdfast:after'));
      expect(claimed).not.toContain('holdfast:given up');
    },
    90_000,
  );

  it('is replaced when only reads had no answer', async () => {
    const route = await startRoute();
    const locks = await open(`redis://127.0.0.1:${route.port}`, library);
    await locks.inspect('read-only');
    const link = route.swallowOpen();
    const before = link.connections;
    for (let n = 0; n < 2; n += 1) await later(locks.inspect('read-only')).catch(() => {});
    await eventually('the connection is given up', () => link.connections < before, BOUND_MS);
    await eventually(
      'reads work again',
      () =>
        locks.inspect('read-only').then(
          () => true,
          () => false,
        ),
      BOUND_MS,
    );
  }, 150_000);

  it('the connection of waiters is replaced too', async () => {
    const route = await startRoute();
    const locks = await open(`redis://127.0.0.1:${route.port}`, library);
    const others = await stage.locks(library, stage.server.url);
    const name = `waiting-${library}`;
    const hold = await others.mutex(name).acquire();
    const waiting = later(locks.mutex(name).acquire({ waitMs: BOUND_MS * 2 }));
    await eventually('it is subscribed', async () => (await subscribers()) === 1);
    const link = route.swallowOpen();
    await eventually('all silent connections are given up', () => link.connections === 0, BOUND_MS);
    await eventually('it is subscribed again', async () => (await subscribers()) === 1, BOUND_MS);
    await hold.release();
    await (await waiting).release();
  }, 150_000);
});

/** Clients that are subscribed over a connection of their own, apart from silent ones. */
async function subscribers(): Promise<number> {
  const list = String(await stage.admin.call('client', ['list', 'type', 'pubsub']));
  return list.split('\n').filter((line) => line !== '').length;
}
