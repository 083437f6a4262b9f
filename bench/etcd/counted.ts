import type { Etcd3 } from 'etcd3';
import type { EtcdClient } from 'holdfast/etcd';

/** The requests that were sent, and the events that came back. */
export interface Count {
  txns: number;
  /** Keep-alive streams: opened in total, and the most that were open at once. */
  keepAlives: number;
  openKeepAlives: number;
  mostKeepAlives: number;
  watches: number;
  events: number;
}

interface Listening {
  on(event: 'data' | 'end' | 'error', listener: (value: unknown) => void): unknown;
}

/** A client that counts the requests of the store. */
export function counted(client: Etcd3): { client: EtcdClient; count: Count } {
  const count: Count = {
    txns: 0,
    keepAlives: 0,
    openKeepAlives: 0,
    mostKeepAlives: 0,
    watches: 0,
    events: 0,
  };
  const { leaseClient: lease } = client;
  return {
    count,
    client: {
      kv: {
        txn: (request, options) => {
          count.txns += 1;
          return client.kv.txn(request as never, options as never);
        },
      },
      leaseClient: {
        leaseGrant: (request, options) => lease.leaseGrant(request as never, options as never),
        leaseRevoke: (request, options) => lease.leaseRevoke(request as never, options as never),
        leaseTimeToLive: (request, options) => lease.leaseTimeToLive(request as never, options as never),
        leaseKeepAlive: async (options) => {
          const stream = await lease.leaseKeepAlive(options as never);
          count.keepAlives += 1;
          count.openKeepAlives += 1;
          count.mostKeepAlives = Math.max(count.mostKeepAlives, count.openKeepAlives);
          (stream as unknown as Listening).on('end', () => {
            count.openKeepAlives -= 1;
          });
          return stream;
        },
      },
      watchClient: {
        watch: async (options) => {
          const stream = await client.watchClient.watch(options as never);
          count.watches += 1;
          (stream as unknown as Listening).on('data', (reply) => {
            count.events += (reply as { events?: unknown[] }).events?.length ?? 0;
          });
          return stream;
        },
      },
    },
  };
}
