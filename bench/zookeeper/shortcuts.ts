import { createLocks } from '../../src/index.ts';
import type { ClaimRequest, Store } from '../../src/store/store.ts';
import { Claim } from '../../src/stores/zookeeper/claim.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { Transactions } from '../../src/stores/zookeeper/transactions.ts';
import type { Ensemble } from '../../test/support/servers/zookeeper.ts';
import { median, report } from '../etcd/measure.ts';
import { connect } from './contenders.ts';

/**
 * The gain of each shortcut that avoids reading the queue: the same work with it and without it, in
 * turns. The source itself is measured, and a shortcut is switched off by replacing its method. A
 * shortcut without a gain is removed from the source.
 */

const CROWD = 1_000;
const SERVED = 100;
const GAIN_MIN = 1.05;

interface Shortcut {
  readonly name: string;
  readonly rounds: number;
  /** The time of the work that the shortcut is for, in milliseconds. */
  measure(address: string): Promise<number>;
  switchOff(): () => void;
}

/** Replaces methods of a class until the result is called. */
function replace<T extends object>(prototype: T, methods: Partial<T>): () => void {
  const before = Object.keys(methods).map((key) => [key, Reflect.get(prototype, key) as unknown] as const);
  Object.assign(prototype, methods);
  return () => {
    for (const [key, method] of before) Reflect.set(prototype, key, method);
  };
}

async function withStore<T>(address: string, work: (store: Store) => Promise<T>): Promise<T> {
  const client = connect(address);
  const store = zookeeperStore(client);
  try {
    return await work(store);
  } finally {
    await store.close();
    client.close();
  }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedMs = performance.now();
  await work();
  return performance.now() - startedMs;
}

/** A holder, and a crowd of waiters behind it. */
function crowdOf(name: string): ClaimRequest[] {
  const terms = { mode: { kind: 'exclusive' }, ttlMs: 60_000, wait: true, note: '', fenceAbove: 0n } as const;
  return Array.from({ length: CROWD + 1 }, (_, n) => ({ ...terms, name, id: `bench#${n}` }));
}

const enter = (store: Store, crowd: readonly ClaimRequest[]): Promise<unknown> =>
  Promise.all(crowd.map((request) => store.claim(request, undefined, { wake: () => {} })));

/** One by one, so that no two claims share the reply to a read. */
async function enterOneByOne(store: Store, crowd: readonly ClaimRequest[]): Promise<void> {
  for (const request of crowd) await enter(store, [request]);
}

let names = 0;
const freshName = (): string => `shortcut-${process.pid}-${names++}`;

const SHORTCUTS: readonly Shortcut[] = [
  {
    name: `the claim ahead is still there: ${SERVED} of ${CROWD} claims ask again one by one`,
    rounds: 5,
    measure: (address) =>
      withStore(address, async (store) => {
        const crowd = crowdOf(freshName());
        await enter(store, crowd);
        return await timed(() => enterOneByOne(store, crowd.slice(-SERVED)));
      }),
    switchOff: () => replace(Claim.prototype, { isStillBehind: async () => false }),
  },
  {
    name: `next behind a known holder: ${SERVED} handoffs with ${CROWD} waiting`,
    rounds: 5,
    measure: (address) =>
      withStore(address, async (store) => {
        const locks = createLocks(store, { waitMs: 120_000 });
        const name = freshName();
        const lock = locks.mutex(name);
        const blocker = await lock.acquire();
        let served = 0;
        let onServed = (): void => {};
        const ended = Promise.allSettled(
          Array.from({ length: CROWD }, async () => {
            const hold = await lock.acquire();
            served += 1;
            if (served === SERVED) onServed();
            await hold.release();
          }),
        );
        while ((await locks.inspect(name)).waiters.length < CROWD) await new Promise(setImmediate);
        const ms = await timed(async () => {
          const allServed = new Promise<void>((resolve) => {
            onServed = resolve;
          });
          await blocker.release();
          await allServed;
        });
        await locks.close({ drainMs: 0 });
        await ended;
        return ms;
      }),
    switchOff: () => replace(Claim.prototype, { isNext: async () => false }),
  },
  {
    name: 'reads of one queue are shared: 50 claims enter a queue',
    rounds: 9,
    measure: (address) =>
      withStore(address, (store) =>
        timed(async () => {
          for (let n = 0; n < 6; n += 1) await enter(store, crowdOf(freshName()).slice(0, 50));
        }),
      ),
    switchOff: () =>
      replace(Transactions.prototype, {
        readBehind(this: Transactions, lock: string) {
          const answer = this.readNow(lock);
          answer.catch(() => {});
          return answer;
        },
      }),
  },
];

export async function shortcuts(ensemble: Ensemble): Promise<void> {
  const { address } = await ensemble.follower();
  for (const { name, rounds, measure, switchOff } of SHORTCUTS) {
    const [on, off]: [number[], number[]] = [[], []];
    await measure(address);
    for (let round = 0; round < rounds; round += 1) {
      on.push(await measure(address));
      const switchOn = switchOff();
      off.push(await measure(address));
      switchOn();
    }
    const gain = median(off.map((ms, n) => ms / (on[n] ?? Number.NaN)));
    const figure = `${median(off).toFixed(0)} → ${median(on).toFixed(0)} ms, ${gain.toFixed(2)} ×`;
    report(name, figure, `≥ ${GAIN_MIN} ×`, gain >= GAIN_MIN);
  }
}
