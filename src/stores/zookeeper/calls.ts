import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { instant } from '../../store/validity.ts';
import {
  type Acl,
  type AclEntry,
  type Callback,
  type ClientError,
  CODE,
  type RawClient,
  STATE,
  type Stat,
  type Transaction,
  type Watcher,
} from './client.ts';
import type { Heartbeat } from './heartbeat.ts';
import type { PatchedClient } from './patched-client.ts';

/** Nodes that one transaction has created. */
interface Created {
  /** In the order of the request. */
  readonly paths: readonly string[];
  /** The transaction; `null` when the client does not show it. */
  readonly zxid: bigint | null;
}

export interface NewNode {
  readonly path: string;
  readonly data: Buffer;
  readonly acl: Acl | undefined;
  /** One of `CREATE`. */
  readonly mode: number;
}

/**
 * The greatest error code of a refused request. The end of a session has such a code too: it removes
 * whatever a request may have created.
 */
const DEFINITE_MAX = -100;

/**
 * The requests of the ZooKeeper API. Each reply is a heartbeat of the session.
 *
 * Writes take lists, and apply all of a list or nothing. `check` and `remove` resolve to whether the
 * node exists. For several nodes they reject if one is missing, because the reply does not say which.
 */
export class Calls {
  readonly #client: PatchedClient;
  readonly #raw: RawClient;
  readonly #clock: Clock;
  readonly #heartbeat: Heartbeat;
  /** Rejects the requests that have no answer yet. */
  readonly #pending = new Set<() => void>();

  constructor(client: PatchedClient, clock: Clock, heartbeat: Heartbeat) {
    this.#client = client;
    this.#raw = client.raw;
    this.#clock = clock;
    this.#heartbeat = heartbeat;
  }

  /** As a transaction, which the client never repeats: a repeated create would make a second node. */
  create(nodes: readonly NewNode[]): Promise<Created> {
    return this.multi((transaction) => {
      for (const { path, data, acl, mode } of nodes) transaction.create(path, data, acl, mode);
    });
  }

  multi(fill: (transaction: Transaction) => void): Promise<Created> {
    return this.#call(true, (settle) => {
      const transaction = this.#raw.transaction();
      fill(transaction);
      transaction.commit((error, results = []) =>
        settle(error, { paths: results.map(({ path = '' }) => path), zxid: this.#client.replyZxid }),
      );
    });
  }

  /** According to the leader and a majority: a member that lags behind cannot answer. */
  async check(paths: readonly string[]): Promise<boolean> {
    const checked = this.multi((transaction) => {
      for (const path of paths) transaction.check(path);
    });
    return (paths.length === 1 ? await unlessMissing(checked) : await checked) !== null;
  }

  async remove(paths: readonly string[]): Promise<boolean> {
    const [first, ...others] = paths;
    if (first === undefined || others.length > 0) {
      await this.multi((transaction) => {
        for (const path of paths) transaction.remove(path);
      });
      return true;
    }
    const removed = this.#call<true>(true, (settle) =>
      this.#raw.remove(first, (error) => settle(error, true)),
    );
    return (await unlessMissing(removed)) !== null;
  }

  async setData(path: string, data: Buffer): Promise<boolean> {
    const set = this.#call<Stat>(true, (settle) => this.#raw.setData(path, data, settle));
    return (await unlessMissing(set)) !== null;
  }

  /** The transaction that created the node; `null`: the connected member has no such node. */
  async exists(path: string, watcher?: Watcher): Promise<bigint | null> {
    const stat = await this.#call<Stat | null>(false, (settle) => this.#raw.exists(path, watcher, settle));
    return stat == null ? null : stat.czxid.readBigInt64BE();
  }

  /** `null`: there is no such node. */
  async getData(path: string, watcher?: Watcher): Promise<{ text: string; zxid: bigint } | null> {
    const read = this.#call<{ data: Buffer | undefined; stat: Stat }>(false, (settle) =>
      this.#raw.getData(path, watcher, (error, data, stat) => settle(error, { data, stat })),
    );
    const found = await unlessMissing(read);
    return found && { text: found.data?.toString() ?? '', zxid: found.stat.czxid.readBigInt64BE() };
  }

  /** `null`: there is no such node. */
  getChildren(path: string, watcher?: Watcher): Promise<readonly string[] | null> {
    return unlessMissing(
      this.#call<readonly string[]>(false, (settle) => this.#raw.getChildren(path, watcher, settle)),
    );
  }

  getAcl(path: string): Promise<readonly AclEntry[]> {
    return this.#call(false, (settle) => this.#raw.getACL(path, settle));
  }

  /**
   * The connection is over. The client does not call back for a reply that it could not read, and
   * others wait for a request to end.
   */
  dropPending(): void {
    for (const drop of [...this.#pending]) drop();
  }

  #call<T>(isWrite: boolean, send: (settle: Callback<T>) => void): Promise<T> {
    // The client would keep the request and send it after the next connect, or drop it without an
    // answer when the session has expired.
    if (this.#raw.getState().code !== STATE.connected)
      return Promise.reject(
        new StoreError('The connection was lost before this was sent', { applied: 'no' }),
      );
    const sent = instant(this.#clock);
    this.#client.onRequest();
    return new Promise<T>((resolve, reject) => {
      let isOver = false;
      const end = (): boolean => {
        if (isOver) return false;
        isOver = true;
        this.#pending.delete(drop);
        this.#client.onReply();
        return true;
      };
      const drop = (): void => {
        if (end()) reject(new StoreError('The connection was lost', { applied: 'unknown' }));
      };
      this.#pending.add(drop);
      try {
        send((error, result) => {
          if (!end()) return;
          if (!error) {
            this.#heartbeat.onReply(sent, isWrite);
            resolve(result);
            return;
          }
          const isDefinite = (error.code ?? 0) <= DEFINITE_MAX;
          if (isDefinite) this.#heartbeat.onReply(sent, false);
          const applied = isDefinite ? 'no' : 'unknown';
          reject(new StoreError(`ZooKeeper: ${error.message}`, { cause: error, applied }));
        });
      } catch (error) {
        end();
        reject(
          new StoreError(`The client refused the request: ${String(error)}`, { cause: error, applied: 'no' }),
        );
      }
    });
  }
}

const codeOf = (error: unknown): number | undefined =>
  error instanceof StoreError ? (error.cause as ClientError | undefined)?.code : undefined;

export const isNoNode = (error: unknown): boolean => codeOf(error) === CODE.noNode;
export const isNoAuth = (error: unknown): boolean => codeOf(error) === CODE.noAuth;
export const isNodeExists = (error: unknown): boolean => codeOf(error) === CODE.nodeExists;

/** `null`: the node of this request does not exist. */
async function unlessMissing<T>(request: Promise<T>): Promise<T | null> {
  try {
    return await request;
  } catch (error) {
    if (isNoNode(error)) return null;
    throw error;
  }
}
