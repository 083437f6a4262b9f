import { createLocks } from 'holdfast';
import { zookeeperStore } from 'holdfast/zookeeper';
import zookeeper from 'node-zookeeper-client';
import type { RawClient } from '../../src/stores/zookeeper/client.ts';
import { type Contender, holdfastOn } from '../shared/contender.ts';

const EPHEMERAL_SEQUENTIAL = 3;
const PERSISTENT = 0;
const SESSION_MS = 4_000;

export function connect(address: string): RawClient {
  const client = zookeeper.createClient(address, {
    sessionTimeout: SESSION_MS,
  }) as unknown as RawClient;
  client.connect();
  return client;
}

/** The least that a lock costs: a node is created and removed, without a look at the queue. */
export function floor(address: string): Contender {
  const client = connect(address);
  const made = new Map<string, Promise<void>>();
  const make = (path: string): Promise<void> =>
    new Promise((resolve) => client.create(path, Buffer.alloc(0), undefined, PERSISTENT, () => resolve()));
  return {
    name: 'floor: create and remove',
    async acquire(lock) {
      const parent = `/floor/${lock}`;
      if (!made.has(parent))
        made.set(
          parent,
          make('/floor').then(() => make(parent)),
        );
      await made.get(parent);
      const path = await new Promise<string>((resolve, reject) => {
        client.create(
          `${parent}/lock-`,
          Buffer.alloc(0),
          undefined,
          EPHEMERAL_SEQUENTIAL,
          (error, created) => (error ? reject(error) : resolve(created)),
        );
      });
      return () =>
        new Promise<void>((resolve, reject) =>
          client.remove(path, (error) => (error ? reject(error) : resolve())),
        );
    },
    close: () => client.close(),
  };
}

export function holdfast(address: string): Contender {
  const client = connect(address);
  const locks = createLocks(zookeeperStore(client), { waitMs: Number.POSITIVE_INFINITY });
  return holdfastOn(locks, () => client.close());
}
