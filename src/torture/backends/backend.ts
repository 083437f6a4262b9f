import type { FaultProxy } from '../servers/fault-proxy.ts';
import type { Server } from '../servers/server.ts';

/** Every store that several processes can share. */
export const BACKENDS = [
  'sqlite',
  'redis',
  'sentinel',
  'cluster',
  'redlock',
  'postgres',
  'advisory',
  'mysql',
  'etcd',
  'zookeeper',
] as const;
export type BackendKind = (typeof BACKENDS)[number];

/** A connection path to a backend that can fail by itself. */
export interface Route {
  /** For `openLocks`. */
  readonly url: string;
  /** One for each node; none for a file. */
  readonly proxies: readonly FaultProxy[];
}

/** The servers of one store, and routes to them. */
export interface Backend extends AsyncDisposable {
  readonly kind: BackendKind;
  /**
   * Does not fail with any route, except in a Cluster, whose nodes announce the proxies of its
   * route.
   */
  readonly url: string;
  readonly servers: readonly Server[];
  /** Makes a replica the master of its group. Only where `hasReplicas` was set. */
  readonly failover?: (random: () => number) => Promise<void>;
  /**
   * A further route. Sentinel and Cluster have one, which all clients share: their servers announce
   * it.
   */
  route(): Promise<Route>;
  stop(): Promise<void>;
}

export interface BackendOptions {
  /**
   * How many Redlock nodes, Cluster masters, etcd or ZooKeeper members; 1, and 3 of Redlock, unless
   * set.
   */
  readonly nodes?: number;
  /** The environment of Redis servers, as for a clock of their own. */
  readonly env?: NodeJS.ProcessEnv;
  /** Confirmed writes survive a crash of the server. */
  readonly isDurable?: boolean;
  /** Behind Sentinel and in a Cluster, each master has a replica. */
  readonly hasReplicas?: boolean;
}

/** What a backend is made of. */
export interface Parts {
  readonly url: string;
  readonly servers: readonly Server[];
  makeRoute(): Promise<Route>;
  failover?(random: () => number): Promise<void>;
  /** Stops everything that is not in `servers`. */
  stop?(): Promise<void>;
}

export class StartedBackend implements Backend {
  readonly kind: BackendKind;
  readonly #parts: Parts;
  readonly #routes: Route[] = [];

  readonly failover?: (random: () => number) => Promise<void>;

  constructor(kind: BackendKind, parts: Parts) {
    this.kind = kind;
    this.#parts = parts;
    if (parts.failover !== undefined) this.failover = parts.failover.bind(parts);
  }

  get url(): string {
    return this.#parts.url;
  }

  get servers(): readonly Server[] {
    return this.#parts.servers;
  }

  async route(): Promise<Route> {
    const route = await this.#parts.makeRoute();
    this.#routes.push(route);
    return route;
  }

  async stop(): Promise<void> {
    const proxies = new Set(this.#routes.flatMap((route) => route.proxies));
    await Promise.all([...proxies].map((proxy) => proxy.stop()));
    await this.#parts.stop?.();
    await Promise.all(this.servers.map((server) => server.stop()));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
