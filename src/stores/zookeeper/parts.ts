import { wrong } from '../../checks.ts';
import { type Clock, systemClock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import { lineMaxOf } from '../line-max.ts';
import { Waiters } from '../waiters.ts';
import { type Claim, Claims } from './claim.ts';
import type { Acl, ZookeeperClient } from './client.ts';
import { Fronts } from './fronts.ts';
import { lineWatches, type Spot } from './line-watches.ts';
import { LocksTree } from './locks-tree.ts';
import { Sessions } from './sessions.ts';

/** What of a ZooKeeper store can be set. Programs that share locks must agree on the root. */
export interface ZookeeperStoreOptions {
  /** The node that all locks stand under, made when it is not there. kazoo's `Lock('/locks/name')` is our lock `name` under the default, `/locks`. */
  readonly root?: string | undefined;
  /** Who may do what with the nodes that the store makes: the client library's lists, such as `ACL.CREATOR_ALL_ACL`. Default: everybody everything. */
  readonly acl?: Acl | undefined;
  /** Removes the node of a lock that this store has made when its last claim is released. kazoo fails when a node vanishes that it has seen. Default false. */
  readonly removeEmpty?: boolean | undefined;
  /** How many claims may wait for one lock. Default 10,000. */
  readonly lineMax?: number | undefined;
  /** For tests. */
  readonly clock?: Clock | undefined;
}

/** What one store is made of. */
export interface Parts {
  readonly clock: Clock;
  readonly tree: LocksTree;
  readonly acl: Acl | undefined;
  readonly lineMax: number;
  readonly sessions: Sessions;
  readonly claims: Claims;
  readonly waiters: Waiters<Claim, Spot>;
  readonly fronts: Fronts;
}

export function makeParts(
  source: ZookeeperClient | (() => ZookeeperClient),
  options: ZookeeperStoreOptions,
): Parts {
  if (typeof source !== 'function' && typeof source?.getSessionId !== 'function')
    throw wrong('client', 'one of node-zookeeper-client, or a function that makes one', typeof source);
  const clock = options.clock ?? systemClock;
  const root = options.root ?? '/locks';
  if (root !== '/' && !/^(?:\/[^/]+)+$/.test(root))
    throw new InvalidArgumentError('root', 'must be the path of a node, such as /locks');
  return {
    clock,
    tree: new LocksTree(root, options.acl, options.removeEmpty === true),
    acl: options.acl,
    lineMax: lineMaxOf(options),
    sessions: new Sessions(source, clock),
    claims: new Claims(),
    waiters: new Waiters(lineWatches(clock)),
    fronts: new Fronts(),
  };
}
