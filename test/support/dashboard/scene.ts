import { type Clock, systemClock } from '../../../src/clock.ts';
import { createLocks, type Hold, type Locks, memoryStore } from '../../../src/index.ts';
import { schedule } from '../../../src/schedule/index.ts';

/** A clock that is set forward between two parts of a scene, so that holds grow old at once. */
class SetClock implements Clock {
  #aheadMs: number;
  constructor(aheadMs: number) {
    this.#aheadMs = aheadMs;
  }
  pass(ms: number): void {
    this.#aheadMs += ms;
  }
  monotonicMs = (): number => systemClock.monotonicMs() + this.#aheadMs;
  wallMs = (): number => systemClock.wallMs() + this.#aheadMs;
  random = (): number => systemClock.random();
  startTimer: Clock['startTimer'] = (ms, fire, options) => systemClock.startTimer(ms, fire, options);
}

const MINUTE_MS = 60_000;
const PAST_MS = 23 * MINUTE_MS;

export interface Scene extends AsyncDisposable {
  /** Of the process that serves the dashboard. */
  readonly locks: Locks;
  /** Lets some seconds of work pass, while a viewer watches. */
  goOn(): Promise<void>;
}

interface World {
  readonly of: (owner: string) => Locks;
  readonly waiting: Promise<unknown>[];
}

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Waits in the queue until the scene ends. */
function wait(world: World, owner: string, name: string, metadata?: Record<string, string>): void {
  const options = { waitMs: Number.POSITIVE_INFINITY, ...(metadata === undefined ? {} : { metadata }) };
  world.waiting.push(
    world
      .of(owner)
      .mutex(name)
      .acquire(options)
      .catch(() => null),
  );
}

async function oldHolds(world: World): Promise<void> {
  const long = { ttlMs: 60 * MINUTE_MS, renewEveryMs: MINUTE_MS };
  await world
    .of('worker-2:388:9ck1')
    .mutex('report:nightly')
    .acquire({ ...long, metadata: { job: 'nightly-report', step: 'export' } });
  const search = world.of('indexer-1:77:p0aq').readWriteLock('catalogue', { ttlMs: 40 * MINUTE_MS });
  await search.read.acquire();
}

async function freshHolds(world: World): Promise<void> {
  const web = world.of('web-1:4711:k3j9');
  await web.mutex('order:43').acquire({ metadata: { user: 'u-1907' } });
  await web.mutex('cart:9f2e').acquire();
  await world
    .of('web-2:4712:x81m')
    .mutex('order:57')
    .acquire({ metadata: { user: 'u-2210' } });
  await world
    .of('web-3:4713:m2zz')
    .mutex('invoice:2026-11')
    .acquire({ metadata: { batch: '7 of 12' } });
  await world.of('web-3:4713:m2zz').readWriteLock('catalogue').read.acquire();
  const calls = (owner: string) => world.of(owner).semaphore('partner-api', { permits: 4 });
  for (const owner of ['web-1:4711:k3j9', 'web-2:4712:x81m', 'web-3:4713:m2zz', 'worker-2:388:9ck1'])
    await calls(owner).acquire();
  for (const owner of ['web-4:4714:qq7d', 'worker-1:387:t4hb'])
    world.waiting.push(
      calls(owner)
        .acquire({ waitMs: Number.POSITIVE_INFINITY })
        .catch(() => null),
    );
  world
    .of('web-1:4711:k3j9')
    .election('leader:billing', { metadata: { region: 'eu-west-1' } })
    .start();
  world.of('web-2:4712:x81m').election('leader:billing').start();
  await world.of('worker-1:387:t4hb').once('welcome-mail:u-1907', () => 'sent');
  const report = schedule(world.of('web-1:4711:k3j9'), 'daily-digest', '0 6 * * *', () => {});
  await report.runNow();
  schedule(world.of('web-1:4711:k3j9'), 'price-import', '*/15 * * * *', () => {});
  await world.of('web-2:4712:x81m').rateLimit('sms', { permits: 20, perMs: 60_000 }).take(3);
}

/** A few workers take turns at one lock, and more of them wait. */
async function takeTurns(world: World, name: string): Promise<Hold> {
  const owners = [
    'web-1:4711:k3j9',
    'web-3:4713:m2zz',
    'worker-1:387:t4hb',
    'web-2:4712:x81m',
    'web-4:4714:qq7d',
  ];
  const order = { waitMs: Number.POSITIVE_INFINITY };
  let hold = await world
    .of(owners[0] ?? '')
    .mutex(name)
    .acquire({ ...order, metadata: { user: 'u-1001', step: 'charge' } });
  for (const [n, owner] of owners.slice(1).entries()) {
    const next = world
      .of(owner)
      .mutex(name)
      .acquire({ ...order, metadata: { user: `u-100${n + 2}`, step: 'charge' } });
    for (const other of owners.slice(n + 2)) {
      const giveUp = AbortSignal.timeout(4200);
      world.waiting.push(
        world
          .of(other)
          .mutex(name)
          .acquire({ ...order, signal: giveUp })
          .then((got) => got.release())
          .catch(() => null),
      );
    }
    await sleep(3600);
    await hold.release();
    hold = await next;
  }
  for (const owner of [
    'web-1:4711:k3j9',
    'web-5:4715:l0ws',
    'worker-3:389:yy2c',
    'web-6:4716:vv8n',
    'web-3:4713:m2zz',
  ])
    wait(world, owner, name, { user: 'u-1042' });
  return hold;
}

/** Locks of a shop: some old, some contended, one about to expire. */
export async function playScene(): Promise<Scene> {
  const clock = new SetClock(-PAST_MS);
  const store = memoryStore({ clock });
  const all = new Map<string, Locks>();
  const world: World = {
    of: (owner) => {
      const made = all.get(owner) ?? createLocks(store, { owner, clock });
      all.set(owner, made);
      return made;
    },
    waiting: [],
  };
  await oldHolds(world);
  clock.pass(PAST_MS);
  const locks = world.of('web-1:4711:k3j9');
  return {
    locks,
    goOn: async () => {
      await freshHolds(world);
      wait(world, 'worker-1:387:t4hb', 'report:nightly');
      wait(world, 'web-2:4712:x81m', 'invoice:2026-11');
      await takeTurns(world, 'order:42');
      await world.of('worker-1:387:t4hb').mutex('stock:sku-3321').acquire({ ttlMs: 17_000, renew: false });
      wait(world, 'web-5:4715:l0ws', 'stock:sku-3321');
      await sleep(9500);
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...all.values()].map((each) => each.close({ drainMs: 0 })));
      await Promise.all(world.waiting);
    },
  };
}
