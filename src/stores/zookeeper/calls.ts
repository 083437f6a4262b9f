import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import {
  type Acl,
  type ClientError,
  CODE,
  CREATE,
  type MultiResult,
  type RawClient,
  type Stat,
  type Transaction,
  type Watcher,
} from './client.ts';
import { answerZxid, sendTogether } from './internals.ts';

/** A node that was created, and the transaction that did it; `null` when the client does not show it. */
export interface Created {
  readonly path: string;
  readonly zxid: bigint | null;
}

export interface Children {
  readonly names: readonly string[];
  /** The last transaction that added or removed one. */
  readonly zxid: bigint;
}

export interface CallEvents {
  /** An answer has come to what was sent then. */
  onHeard(sent: Instant, isWrite: boolean): void;
  /** Answers are awaited from now on, or none any more. */
  onBusy(isBusy: boolean): void;
}

/** Requests that only the answer of the server can fail: with these codes nothing of them was done. */
const isAnswer = (code: number | undefined): boolean =>
  code !== undefined && code <= -100 && code !== CODE.sessionExpired && code !== CODE.authFailed;

/** The single requests. Each answer is a sign of life; a write has been through the leader and a majority. */
export class Calls {
  readonly #client: RawClient;
  readonly #clock: Clock;
  readonly #events: CallEvents;
  #pending = 0;
  #isSending = false;

  constructor(client: RawClient, clock: Clock, events: CallEvents) {
    this.#client = client;
    this.#clock = clock;
    this.#events = events;
  }

  create(path: string, data: Buffer, acl: Acl | undefined, isEphemeral: boolean): Promise<Created> {
    const mode = isEphemeral ? CREATE.ephemeralSequential : CREATE.persistent;
    return this.#call(true, (settle) =>
      this.#client.create(path, data, acl, mode, (error, made) =>
        settle(error, { path: made, zxid: answerZxid(this.#client) }),
      ),
    );
  }

  /** All or nothing. Rejects with `applied: 'no'` when one of them was turned down. */
  multi(
    fill: (transaction: Transaction) => void,
  ): Promise<{ results: readonly MultiResult[]; zxid: bigint | null }> {
    return this.#call(true, (settle) => {
      const transaction = this.#client.transaction();
      fill(transaction);
      transaction.commit((error, results) =>
        settle(error, { results: results ?? [], zxid: answerZxid(this.#client) }),
      );
    });
  }

  /** Is the node there? Asked of the leader and a majority, so that nobody who lags behind can answer. */
  async check(path: string): Promise<boolean> {
    return await ifThere(this.multi((transaction) => transaction.check(path)));
  }

  /** Whether this call removed it. */
  async remove(path: string): Promise<boolean> {
    return await ifThere(
      this.#call<null>(true, (settle) => this.#client.remove(path, (error) => settle(error, null))),
    );
  }

  async setData(path: string, data: Buffer): Promise<boolean> {
    return await ifThere(
      this.#call<Stat>(true, (settle) =>
        this.#client.setData(path, data, (error, stat) => settle(error, stat)),
      ),
    );
  }

  /** The transaction that created it; `null` when it is not there. From the member that we are connected to. */
  async exists(path: string, watcher?: Watcher): Promise<bigint | null> {
    const stat = await this.#stat(path, watcher);
    return stat == null ? null : stat.czxid.readBigInt64BE();
  }

  /** How many children a node has, and the last transaction that added or removed one. */
  async countChildren(path: string, watcher?: Watcher): Promise<{ count: number; zxid: bigint }> {
    const stat = await this.#stat(path, watcher);
    if (stat == null) return { count: 0, zxid: 0n };
    return { count: stat.numChildren, zxid: stat.pzxid.readBigInt64BE() };
  }

  #stat(path: string, watcher: Watcher | undefined): Promise<Stat | null> {
    return this.#call(false, (settle) => {
      if (watcher === undefined) this.#client.exists(path, (error, found) => settle(error, found));
      else this.#client.exists(path, watcher, (error, found) => settle(error, found));
    });
  }

  /** `null`: it is not there. */
  async getData(path: string): Promise<{ text: string; zxid: bigint } | null> {
    try {
      return await this.#call(false, (settle) =>
        this.#client.getData(path, (error, data, stat) =>
          settle(
            error,
            error ? NOTHING : { text: data?.toString() ?? '', zxid: stat.czxid.readBigInt64BE() },
          ),
        ),
      );
    } catch (error) {
      if (isNoNode(error)) return null;
      throw error;
    }
  }

  /** Rejects when there is no such node. */
  getChildren(path: string, watcher?: Watcher): Promise<Children> {
    return this.#call(false, (settle) => {
      const take = (
        error: ClientError | null | undefined,
        names: readonly string[] | undefined,
        stat: Stat | undefined,
      ): void => settle(error, { names: names ?? [], zxid: stat?.pzxid.readBigInt64BE() ?? 0n });
      if (watcher === undefined) this.#client.getChildren(path, take);
      else this.#client.getChildren(path, watcher, take);
    });
  }

  #call<T>(
    isWrite: boolean,
    send: (settle: (error: ClientError | null | undefined, result: T) => void) => void,
  ): Promise<T> {
    const sent = instant(this.#clock);
    if (this.#pending++ === 0) this.#events.onBusy(true);
    if (this.#isSending) sendTogether(this.#client);
    else this.#beginTick();
    return new Promise<T>((resolve, reject) => {
      try {
        send((error, result) => {
          this.#answered();
          if (!error) {
            this.#events.onHeard(sent, isWrite);
            resolve(result);
            return;
          }
          if (isAnswer(error.code)) this.#events.onHeard(sent, false);
          reject(failureOf(error));
        });
      } catch (error) {
        this.#answered();
        reject(
          new StoreError(`The client refused the request: ${String(error)}`, { cause: error, applied: 'no' }),
        );
      }
    });
  }

  /** More requests follow within this tick: they go out in one piece. */
  together(): void {
    sendTogether(this.#client);
  }

  /** The first request of a tick goes out at once; usually it is the only one. */
  #beginTick(): void {
    this.#isSending = true;
    process.nextTick(() => {
      this.#isSending = false;
    });
  }

  #answered(): void {
    if (--this.#pending === 0) this.#events.onBusy(false);
  }
}

const NOTHING = { text: '', zxid: 0n };

function failureOf(error: ClientError): StoreError {
  // With the session goes all that it has made.
  const isDefinite =
    isAnswer(error.code) || error.code === CODE.sessionExpired || error.code === CODE.authFailed;
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
