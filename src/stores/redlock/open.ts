import { checkKeys } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { connectionOf, type RedisClient } from '../redis/client.ts';
import { checkPrefix } from '../redis/keys.ts';
import { openClient } from '../redis/open.ts';
import { hostsIn } from '../redis/url.ts';
import { RedisNode } from './node.ts';
import { RedlockStore } from './redlock-store.ts';

/** Options of a Redlock store. Programs that share locks must agree on the nodes and the prefix. */
export interface RedlockStoreOptions {
  /**
   * Put before every lock's name, as for `redisStore`. Default `holdfast:`. With `''`, npm
   * `redlock` on the same nodes excludes us and we exclude it.
   */
  readonly prefix?: string | undefined;
  /**
   * The share of a TTL by which the clocks of the nodes may run faster than ours. Holds end earlier
   * by that share and 2 ms. Default 0.01, which is the minimum.
   */
  readonly drift?: number | undefined;
  /**
   * Accept servers that evict keys when their memory is full: they may evict locks that are held.
   * Default false.
   */
  readonly allowEviction?: boolean | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** The drift that the core subtracts from every hold. */
const DRIFT_MIN = 0.01;
const DRIFT_MAX = 0.5;

const FORM = 'redlock://[user:password@]host[:port],…[/database][?prefix=TEXT]';

/**
 * A store over several independent Redis servers, none of them a replica of another. A claim that a
 * majority of them grants is held. Use three or five servers: an even number works, and tolerates
 * no more failures than one server fewer. The clients stay yours.
 *
 * Throws `InvalidArgumentError` for clients or options that cannot be used. Claims reject with it
 * too if two clients lead to one server, by its run id. A majority cannot count permits:
 * `semaphore` and `rateLimit` throw `UnsupportedError` when they are made.
 */
export function redlockStore(clients: readonly RedisClient[], options: RedlockStoreOptions = {}): Store {
  if (!Array.isArray(clients) || clients.length === 0) {
    throw new InvalidArgumentError('clients', 'must be a list of Redis clients, one for each server');
  }
  if (new Set(clients).size < clients.length) {
    throw new InvalidArgumentError('clients', 'must be different clients of different servers');
  }
  checkKeys(options, ['prefix', 'drift', 'allowEviction', 'clock']);
  return storeOf(clients, clients.map(labelOf), options, false);
}

/** The store of a `redlock://a,b,c` URL. It opens clients, which `close` ends. */
export async function openRedlock(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const { list, username, password, path, prefix } = hostsIn(url, FORM);
  if (!/^\d*$/.test(path)) throw new InvalidArgumentError('url', `must look like ${FORM}`);
  const login = username === '' && password === '' ? '' : `${encode(username)}:${encode(password)}@`;
  const clients = await Promise.all(list.map((host) => openClient(`redis://${login}${host}/${path}`)));
  return storeOf(clients, list, { prefix, clock: options.clock }, true);
}

const encode = encodeURIComponent;

function storeOf(
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
    const settings = { prefix, label: labels[index] as string, allowEviction, clock };
    return new RedisNode(connectionOf(client, ownsClients), settings, ownsClients);
  });
  return new RedlockStore(nodes, { clock, drift });
}

/** The address of a client, if its options have one. */
function labelOf(client: RedisClient, index: number): string {
  const options = (client as { options?: Address & { socket?: Address } }).options;
  const { host, port } = options?.socket ?? options ?? {};
  return host === undefined || port === undefined ? `#${index + 1}` : `${host}:${port}`;
}

interface Address {
  readonly host?: string;
  readonly port?: number;
}
