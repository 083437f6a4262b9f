/** An error of the client: `code` is ZooKeeper's. */
export interface ClientError extends Error {
  readonly code?: number;
}

export type Callback<T> = (error: ClientError | null | undefined, result: T) => void;

/** Numbers of 64 bits come as eight bytes. */
export interface Stat {
  readonly czxid: Buffer;
  readonly pzxid: Buffer;
  readonly numChildren: number;
}

/** What ZooKeeper tells of a node that was watched; only that it tells counts. */
export type Watcher = (event: unknown) => void;

/** How the nodes that a store makes are protected: access control lists as the client library has them (`ACL.CREATOR_ALL_ACL`). */
export type Acl = readonly object[];

export interface MultiResult {
  /** What a create made. */
  readonly path?: string;
  /** -1: failed, with `err`. */
  readonly type?: number;
  readonly err?: number;
}

export interface Transaction {
  create(path: string, data: Buffer, acl: Acl | undefined, mode: number): Transaction;
  check(path: string, version?: number): Transaction;
  remove(path: string, version?: number): Transaction;
  commit(callback: (error: ClientError | null | undefined, results?: readonly MultiResult[]) => void): void;
}

/** A `Client` of the `node-zookeeper-client` package, whoever wrote its types. What is called of it is `RawClient`. */
export interface ZookeeperClient {
  connect(): void;
  close(): void;
  getSessionId(): Uint8Array;
  getSessionTimeout(): number;
  addAuthInfo(scheme: string, auth: never): void;
  transaction(): object;
}

/**
 * What the store uses of a client: a `Client` of the `node-zookeeper-client` package. Its word on whether it is connected is not used to judge a hold: it was measured
 * to say so long after the session was gone.
 */
export interface RawClient {
  connect(): void;
  close(): void;
  getState(): { readonly code: number };
  getSessionId(): Buffer;
  /** Milliseconds; what the server has agreed to. */
  getSessionTimeout(): number;
  addAuthInfo(scheme: string, auth: Buffer): void;
  /** Without a list, everybody may do everything with the node. */
  create(path: string, data: Buffer, acl: Acl | undefined, mode: number, callback: Callback<string>): void;
  remove(path: string, callback: (error: ClientError | null | undefined) => void): void;
  exists(path: string, callback: Callback<Stat | null>): void;
  exists(path: string, watcher: Watcher, callback: Callback<Stat | null>): void;
  getData(
    path: string,
    callback: (error: ClientError | null | undefined, data: Buffer | undefined, stat: Stat) => void,
  ): void;
  setData(path: string, data: Buffer, callback: Callback<Stat>): void;
  getChildren(
    path: string,
    callback: (error: ClientError | null | undefined, children: readonly string[], stat: Stat) => void,
  ): void;
  getChildren(
    path: string,
    watcher: Watcher,
    callback: (error: ClientError | null | undefined, children: readonly string[], stat: Stat) => void,
  ): void;
  transaction(): Transaction;
  on(event: 'state', listener: (state: { readonly code: number }) => void): unknown;
  removeListener(event: 'state', listener: (state: { readonly code: number }) => void): unknown;
}

/** The client's own numbers. */
export const STATE = { disconnected: 0, connected: 3, authFailed: 4, expired: -122 } as const;
export const CREATE = { persistent: 0, ephemeralSequential: 3 } as const;
export const CODE = {
  connectionLoss: -4,
  noNode: -101,
  noAuth: -102,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  authFailed: -115,
} as const;
