import { wrong } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import { lineMaxOf } from '../line-max.ts';
import { Waiters } from '../waiters.ts';
import { Calls } from './calls.ts';
import { type Claim, Claims } from './claim.ts';
import type { EtcdClient } from './client.ts';
import { Entrance } from './entrance.ts';
import { KeepAlives } from './keep-alives.ts';
import { Keeper } from './keeper.ts';
import { Keys } from './key.ts';
import { LeasePool } from './lease-pool.ts';
import { LineReader } from './line-reader.ts';
import { lineWatches } from './line-watches.ts';
import { Transactions } from './transactions.ts';
import { WatchHub } from './watch-hub.ts';

/** What of an etcd store can be set. Programs that share locks must agree on the prefix. */
export interface EtcdStoreOptions {
  /** What every key begins with. `''` shares locks with `etcdctl lock` and Go's `concurrency.Mutex`. Default `holdfast/`. */
  readonly prefix?: string | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly lineMax?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** What one store is made of. */
export interface Parts {
  readonly clock: Clock;
  readonly keys: Keys;
  readonly calls: Calls;
  readonly transactions: Transactions;
  readonly reader: LineReader;
  readonly keepAlives: KeepAlives;
  readonly leases: LeasePool;
  readonly entrance: Entrance;
  readonly keeper: Keeper;
  readonly hub: WatchHub;
  readonly waiters: Waiters<Claim, Buffer>;
  readonly claims: Claims;
}

export function makeParts(client: EtcdClient, options: EtcdStoreOptions): Parts {
  if (typeof client?.kv?.txn !== 'function') throw wrong('client', 'one of etcd3', typeof client);
  const clock = options.clock ?? systemClock;
  const calls = new Calls(client, clock);
  const transactions = new Transactions(calls);
  const reader = new LineReader(transactions);
  const keepAlives = new KeepAlives(calls, clock);
  const leases = new LeasePool(calls, keepAlives, clock);
  const hub = new WatchHub(calls, clock);
  return {
    clock,
    keys: new Keys(options.prefix ?? 'holdfast/'),
    calls,
    transactions,
    reader,
    keepAlives,
    leases,
    entrance: new Entrance(transactions, reader, lineMaxOf(options), clock),
    keeper: new Keeper(leases, transactions),
    hub,
    waiters: new Waiters(lineWatches(hub)),
    claims: new Claims(),
  };
}
