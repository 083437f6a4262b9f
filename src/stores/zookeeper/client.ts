/** An error of the client: `code` is ZooKeeper's. */
export interface ClientError extends Error {
  readonly code?: number;
}

export type Callback<T> = (error: ClientError | null | undefined, result: T) => void;

/** The client library represents numbers of 64 bits as buffers of eight bytes. */
export interface Stat {
  readonly czxid: Buffer;
}

export type Watcher = (event: { readonly type: number }) => void;

/** An access control list of the client library, such as `ACL.CREATOR_ALL_ACL`. */
export type Acl = readonly object[];

/** An entry of an access control list, as the server has it. `permission`: a sum of `PERMISSION`. */
export interface AclEntry {
  readonly permission: number;
  readonly id: { readonly scheme: string; readonly id: string };
}

export interface Transaction {
  create(path: string, data: Buffer, acl: Acl | undefined, mode: number): Transaction;
  check(path: string, version?: number): Transaction;
  remove(path: string, version?: number): Transaction;
  /** `path`: of a created node. */
  commit(callback: Callback<readonly { readonly path?: string }[] | undefined>): void;
}

/** A `Client` of the `node-zookeeper-client` package. */
export interface ZookeeperClient {
  connect(): void;
  close(): void;
  getSessionId(): Uint8Array;
  /** Milliseconds, as agreed with the server. */
  getSessionTimeout(): number;
  addAuthInfo(scheme: string, auth: never): void;
  transaction(): object;
}

/**
 * What the store uses of a `Client` of the `node-zookeeper-client` package. Its state does not
 * decide whether a hold is trusted: a client was seen to report "connected" long after its session
 * had ended.
 */
export interface RawClient extends ZookeeperClient {
  getState(): { readonly code: number };
  getSessionId(): Buffer;
  addAuthInfo(scheme: string, auth: Buffer): void;
  /** Without a list, every client may do everything with the node. */
  create(path: string, data: Buffer, acl: Acl | undefined, mode: number, callback: Callback<string>): void;
  remove(path: string, callback: (error: ClientError | null | undefined) => void): void;
  exists(path: string, callback: Callback<Stat | null>): void;
  exists(path: string, watcher: Watcher | undefined, callback: Callback<Stat | null>): void;
  getData(
    path: string,
    watcher: Watcher | undefined,
    callback: (error: ClientError | null | undefined, data: Buffer | undefined, stat: Stat) => void,
  ): void;
  getACL(path: string, callback: Callback<readonly AclEntry[]>): void;
  setData(path: string, data: Buffer, callback: Callback<Stat>): void;
  getChildren(path: string, callback: Callback<readonly string[]>): void;
  getChildren(path: string, watcher: Watcher | undefined, callback: Callback<readonly string[]>): void;
  transaction(): Transaction;
  on(event: 'state', listener: (state: { readonly code: number }) => void): unknown;
  removeListener(event: 'state', listener: (state: { readonly code: number }) => void): unknown;
}

/** The numbers that the client library uses. */
export const STATE = { disconnected: 0, connected: 3, authFailed: 4, expired: -122 } as const;
export const CREATE = { persistent: 0, ephemeralSequential: 3 } as const;
export const PERMISSION = { delete: 8 } as const;
export const CODE = { noNode: -101, noAuth: -102, nodeExists: -110 } as const;
