import { type Clock, systemClock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { linkOf, type RedisClient } from '../redis/client.ts';
import { checkPrefix } from '../redis/prefix.ts';
import { QuorumStore } from './quorum-store.ts';
import { RedisNode } from './redis-node.ts';

/** What of a Redlock store can be set. Programs that share locks must agree on the nodes and on the prefix. */
export interface RedlockStoreOptions {
  /** Put before every lock's name, as for `redisStore`. Default `holdfast:`. With `''`, npm `redlock` on the same nodes excludes us and we exclude it. */
  readonly prefix?: string | undefined;
  /** The share of a time to live by which the nodes' clocks may run faster than ours: holds end by so much, and 2 ms, earlier. Default 0.01, which is the least. */
  readonly drift?: number | undefined;
  /** Work with servers that evict keys when their memory is full, and with it locks that are held. Default false. */
  readonly allowEviction?: boolean | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** The drift that the core takes off every hold. */
const DRIFT_MIN = 0.01;
const DRIFT_MAX = 0.5;

/**
 * A store over several independent Redis servers, none of them a replica of another: what a majority of them grants is held. Three or five of them; an even
 * number works and tolerates no more failures than one fewer. The clients stay yours.
 *
 * Throws `InvalidArgumentError` for clients or options that cannot be used. When two clients turn out to lead to one server, by its run id, claims reject with it too.
 * Permits cannot be counted by a majority: `semaphore` and `rateLimit` throw `UnsupportedError` when they are made.
 */
export function redlockStore(clients: readonly RedisClient[], options: RedlockStoreOptions = {}): Store {
  if (!Array.isArray(clients) || clients.length === 0) {
    throw new InvalidArgumentError('clients', 'must be a list of Redis clients, one for each server');
  }
  if (new Set(clients).size < clients.length) {
    throw new InvalidArgumentError('clients', 'must be different clients of different servers');
  }
  const labels = clients.map((client, index) => labelOf(client, index));
  return quorumOf(clients, labels, options, false);
}

export function quorumOf(
  clients: readonly RedisClient[],
  labels: readonly string[],
  options: RedlockStoreOptions,
  ownsClients: boolean,
): Store {
  const { prefix = 'holdfast:', drift = DRIFT_MIN, allowEviction = false, clock = systemClock } = options;
  checkPrefix(prefix);
  if (typeof drift !== 'number' || !(drift >= DRIFT_MIN && drift <= DRIFT_MAX)) {
    throw new InvalidArgumentError('drift', `must be a share from ${DRIFT_MIN} to ${DRIFT_MAX}`);
  }
  const nodes = clients.map((client, index) => {
    const label = labels[index] ?? `#${index + 1}`;
    return new RedisNode(linkOf(client), { prefix, label, allowEviction, clock }, ownsClients);
  });
  return new QuorumStore(nodes, { clock, drift });
}

/** Where a client leads, as far as it says so. */
function labelOf(client: RedisClient, index: number): string {
  const options = (client as { options?: Address & { socket?: Address } }).options;
  const { host, port } = options?.socket ?? options ?? {};
  return host === undefined || port === undefined ? `#${index + 1}` : `${host}:${port}`;
}

interface Address {
  readonly host?: string;
  readonly port?: number;
}
