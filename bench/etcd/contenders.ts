import { Etcd3 } from 'etcd3';
import { createLocks } from 'holdfast';
import { etcdStore } from 'holdfast/etcd';
import { type Contender, holdfastOn } from '../shared/contender.ts';

export type MakeContender = (hosts: readonly string[]) => Promise<Contender>;

const TTL_SECONDS = 30;
let count = 0;

/** The least that a lock costs: one transaction to take it and one to release it, on a lease that exists. */
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
  return holdfastOn(locks, () => client.close());
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
