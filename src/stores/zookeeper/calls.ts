import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../store/validity.ts';
import {
  type Acl,
  type AclEntry,
  type ClientError,
  CODE,
  CREATE,
  type MultiResult,
  type RawClient,
  STATE,
  type Stat,
  type Transaction,
  type Watcher,
} from './client.ts';
import type { PatchedClient } from './patched-client.ts';

/** A created node. `zxid`: the transaction that created it; `null` when the client does not show it. */
export interface Created {
  readonly path: string;
  readonly zxid: bigint | null;
}

/** A reply has come to a request that was sent at `sent`. */
export type OnReply = (sent: Instant, isWrite: boolean) => void;

/** Error codes that only a server's reply can have. The request was not applied then. */
const isReply = (code: number | undefined): boolean =>
  code !== undefined && code <= -100 && code !== CODE.sessionExpired && code !== CODE.authFailed;

/** The requests of the ZooKeeper API. Each reply is a heartbeat of the session. */
export class Calls {
  readonly #client: PatchedClient;
  readonly #raw: RawClient;
  readonly #clock: Clock;
  readonly #onReply: OnReply;
  /** Rejects the reads that have no answer yet. */
  readonly #reads = new Set<() => void>();

  constructor(client: PatchedClient, clock: Clock, onReply: OnReply) {
    this.#client = client;
    this.#raw = client.raw;
    this.#clock = clock;
    this.#onReply = onReply;
  }

  create(path: string, data: Buffer, acl: Acl | undefined, isEphemeral: boolean): Promise<Created> {
    const mode = isEphemeral ? CREATE.ephemeralSequential : CREATE.persistent;
    return this.#call(true, (settle) =>
      this.#raw.create(path, data, acl, mode, (error, made) =>
        settle(error, { path: made, zxid: this.#client.replyZxid }),
      ),
    );
  }

  /** Applies all operations or none. Rejects with `applied: 'no'` when one of them was refused. */
  multi(
    fill: (transaction: Transaction) => void,
  ): Promise<{ results: readonly MultiResult[]; zxid: bigint | null }> {
    return this.#call(true, (settle) => {
      const transaction = this.#raw.transaction();
      fill(transaction);
      transaction.commit((error, results) =>
        settle(error, { results: results ?? [], zxid: this.#client.replyZxid }),
      );
    });
  }

  /**
   * Whether the node exists, according to the leader and a majority: a member that lags behind
   * cannot answer. Several nodes are checked together. If one of those is missing, the call
   * rejects, because the reply does not say which one.
   */
  async check(paths: readonly string[]): Promise<boolean> {
    const checked = this.multi((transaction) => {
      for (const path of paths) transaction.check(path);
    });
    return paths.length === 1 ? await ifThere(checked) : checked.then(() => true);
  }

  /** Resolves to whether this call removed the node. */
  async remove(path: string): Promise<boolean> {
    return await ifThere(
      this.#call<null>(true, (settle) => this.#raw.remove(path, (error) => settle(error, null))),
    );
  }

  async setData(path: string, data: Buffer): Promise<boolean> {
    return await ifThere(
      this.#call<Stat>(true, (settle) => this.#raw.setData(path, data, (error, stat) => settle(error, stat))),
    );
  }

  /** The transaction that created the node; `null`: the connected member has no such node. */
  async exists(path: string, watcher?: Watcher): Promise<bigint | null> {
    const stat = await this.#call<Stat | null>(false, (settle) => this.#raw.exists(path, watcher, settle));
    return stat == null ? null : stat.czxid.readBigInt64BE();
  }

  /** `null`: there is no such node. */
  async getData(path: string): Promise<{ text: string; zxid: bigint } | null> {
    try {
      const [data, stat] = await this.#call<readonly [Buffer | undefined, Stat]>(false, (settle) =>
        this.#raw.getData(path, (error, text, about) => settle(error, [text, about])),
      );
      return { text: data?.toString() ?? '', zxid: stat.czxid.readBigInt64BE() };
    } catch (error) {
      if (isNoNode(error)) return null;
      throw error;
    }
  }

  /** Rejects when there is no such node. */
  getChildren(path: string, watcher?: Watcher): Promise<readonly string[]> {
    return this.#call(false, (settle) =>
      this.#raw.getChildren(path, watcher, (error, names) => settle(error, names ?? [])),
    );
  }

  getAcl(path: string): Promise<readonly AclEntry[]> {
    return this.#call(false, (settle) => this.#raw.getACL(path, settle));
  }

  /**
   * Whether the client may create this node, which must not exist. Creates nothing: the transaction also
   * checks for a child, which a new node does not have.
   */
  async mayCreate(path: string): Promise<boolean> {
    try {
      await this.multi((transaction) =>
        transaction.create(path, Buffer.alloc(0), undefined, CREATE.persistent).check(`${path}/none`),
      );
    } catch (error) {
      if (isNoAuth(error)) return false;
      if (!isNoNode(error)) throw error;
    }
    return true;
  }

  /**
   * The connection is over. The client does not call back for a reply that it could not read, and
   * others wait for a read to end.
   */
  dropReads(): void {
    for (const drop of [...this.#reads]) drop();
  }

  #call<T>(
    isWrite: boolean,
    send: (settle: (error: ClientError | null | undefined, result: T) => void) => void,
  ): Promise<T> {
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
        this.#reads.delete(drop);
        this.#client.onReply();
        return true;
      };
      const drop = (): void => {
        if (end()) reject(new StoreError('The connection was lost', { applied: 'unknown' }));
      };
      if (!isWrite) this.#reads.add(drop);
      try {
        send((error, result) => {
          if (!end()) return;
          if (!error) {
            this.#onReply(sent, isWrite);
            resolve(result);
            return;
          }
          if (isReply(error.code)) this.#onReply(sent, false);
          reject(failureOf(error));
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

function failureOf(error: ClientError): StoreError {
  // The end of a session removes whatever the request may have created.
  const isDefinite =
    isReply(error.code) || error.code === CODE.sessionExpired || error.code === CODE.authFailed;
  return new StoreError(`ZooKeeper: ${error.message}`, {
    cause: error,
    applied: isDefinite ? 'no' : 'unknown',
  });
}

const codeOf = (error: unknown): number | undefined =>
  error instanceof StoreError ? (error.cause as ClientError | undefined)?.code : undefined;

export const isNoNode = (error: unknown): boolean => codeOf(error) === CODE.noNode;
export const isNoAuth = (error: unknown): boolean => codeOf(error) === CODE.noAuth;
export const isNodeExists = (error: unknown): boolean => codeOf(error) === CODE.nodeExists;

async function ifThere(request: Promise<unknown>): Promise<boolean> {
  try {
    await request;
    return true;
  } catch (error) {
    if (isNoNode(error)) return false;
    throw error;
  }
}
