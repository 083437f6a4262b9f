import { Etcd3 } from 'etcd3';
import { createLocks } from 'holdfast';
import { etcdStore } from 'holdfast/etcd';

/** One way to take a lock that is free. `acquire` resolves to the release. */
export interface Contender {
  readonly name: string;
  acquire(lock: string): Promise<() => Promise<unknown>>;
  close(): Promise<void> | void;
}

export type MakeContender = (hosts: readonly string[]) => Promise<Contender>;

const TTL_SECONDS = 30;
let count = 0;

/** The least that a lock costs: a lease that is there already, one transaction to take it and one to give it back. */
export const floor: MakeContender = async (hosts) => {
  const client = new Etcd3({ hosts: [...hosts] });
  const { ID: lease } = await client.leaseClient.leaseGrant({ TTL: String(TTL_SECONDS * 20), ID: '0' });
  return {
    name: 'floor: two bare transactions',
    async acquire(lock) {
      const key = Buffer.from(`${lock}/${process.pid}-${count++}`);
      const taken = await client.kv.txn({
        compare: [
          {
            target: 'Create',
            result: 'Equal',
            key: Buffer.from(`${lock}/`),
            range_end: Buffer.from(`${lock}0`),
            create_revision: '0',
          },
        ],
        success: [{ request_put: { key, value: Buffer.alloc(0), lease } }],
        failure: [],
      });
      if (!taken.succeeded) throw new Error('held');
      const create_revision = taken.header.revision;
      return () =>
        client.kv.txn({
          compare: [{ target: 'Create', result: 'Equal', key, create_revision }],
          success: [{ request_delete_range: { key } }],
          failure: [],
        });
    },
    close: () => client.close(),
  };
};

export const holdfast: MakeContender = async (hosts) => {
  const client = new Etcd3({ hosts: [...hosts] });
  const locks = createLocks(etcdStore(client), {
    ttlMs: TTL_SECONDS * 1_000,
    waitMs: Number.POSITIVE_INFINITY,
  });
  return {
    name: 'holdfast',
    async acquire(lock) {
      const hold = await locks.mutex(lock).acquire();
      return () => hold.release();
    },
    async close() {
      await locks.close();
      client.close();
    },
  };
};

export const etcd3Lock: MakeContender = async (hosts) => {
  const client = new Etcd3({ hosts: [...hosts] });
  return {
    name: 'etcd3 Lock',
    async acquire(lock) {
      const held = await client.lock(lock).ttl(TTL_SECONDS).acquire();
      return () => held.release();
    },
    close: () => client.close(),
  };
};
