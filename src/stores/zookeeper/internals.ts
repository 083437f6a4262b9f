import type { ZookeeperClient } from './client.ts';

/**
 * What the client library does not offer and a lock needs. Everything here is optional: without it a store is still safe, because its own deadline ends every hold, but finds
 * its way back more slowly.
 */
interface Internals {
  readonly connectionManager?: {
    readonly socket?: { destroy?(): void; ref?(): void; unref?(): void };
    readonly state?: number;
    readonly zxid?: unknown;
    readonly options?: object;
    readonly credentials?: readonly { readonly scheme: string; readonly auth: Buffer }[];
    readonly connectionStringParser?: { readonly connectionString?: string };
    readonly watcherManager?: {
      readonly dataWatchers?: Record<string, unknown>;
      readonly childWatchers?: Record<string, unknown>;
      readonly existenceWatchers?: Record<string, unknown>;
    };
    onSocketData?: (data: Buffer) => void;
    pendingBuffer?: Buffer | null;
  };
}

const DISCONNECTED = 0;
const CLOSED = -2;

const managerOf = (client: ZookeeperClient): Internals['connectionManager'] =>
  (client as Internals).connectionManager;

/** Connects a client that is not connected, nor about to be: a second connection would tear both down. */
export function connectOnce(client: ZookeeperClient): void {
  if ((managerOf(client)?.state ?? DISCONNECTED) === DISCONNECTED) client.connect();
}

/** Ends the connection, not the session: the client goes on to another member. By itself it never leaves one that has fallen silent. */
export function dropLink(client: ZookeeperClient): void {
  managerOf(client)?.socket?.destroy?.();
}

/** An idle connection of ours does not keep the process alive; one that an answer is awaited on does. */
export function keepProcessAlive(client: ZookeeperClient, isAwaited: boolean): void {
  const socket = managerOf(client)?.socket;
  if (isAwaited) socket?.ref?.();
  else socket?.unref?.();
}

/** The client takes half a packet of an old connection for the beginning of the new one's. */
export function forgetPartialPacket(client: ZookeeperClient): void {
  const manager = managerOf(client);
  if (manager?.pendingBuffer != null) manager.pendingBuffer = null;
}

/** Its owner has closed it. The client itself tells nobody. */
export const isClosed = (client: ZookeeperClient): boolean => managerOf(client)?.state === CLOSED;

/** The transaction that the answer being handed over stands for; `null` when that cannot be seen. */
export function answerZxid(client: ZookeeperClient): bigint | null {
  const zxid = managerOf(client)?.zxid;
  return Buffer.isBuffer(zxid) && zxid.length === 8 ? zxid.readBigInt64BE() : null;
}

/**
 * Nobody listens to this path any more. The client has no request to end a watch, and would ask for each of them again after every reconnect, all in one packet: more than ten thousand
 * of them are too big for the server, which then ends the connection.
 */
export function forgetWatches(client: ZookeeperClient, path: string): void {
  const watchers = managerOf(client)?.watcherManager;
  for (const kind of [watchers?.dataWatchers, watchers?.childWatchers, watchers?.existenceWatchers])
    if (kind !== undefined && Object.hasOwn(kind, path)) delete kind[path];
}

/** The client throws out of its socket's event when the server answers with a code that it does not know: that must not end the process, only the connection. */
export function guardAnswers(client: ZookeeperClient): void {
  const manager = managerOf(client);
  const onData = manager?.onSocketData;
  if (manager === undefined || typeof onData !== 'function' || Object.hasOwn(manager, 'onSocketData')) return;
  manager.onSocketData = function guarded(this: unknown, data: Buffer): void {
    try {
      onData.call(this, data);
    } catch {
      dropLink(client);
    }
  };
}

/** Another client for the same ensemble, with the same options and credentials; `null` when they cannot be seen. A client whose session has expired cannot be used again. */
export function anotherLike(client: ZookeeperClient): ZookeeperClient | null {
  const manager = managerOf(client);
  const address = manager?.connectionStringParser?.connectionString;
  if (manager === undefined || address === undefined) return null;
  const Client = client.constructor as new (address: string, options: object) => ZookeeperClient;
  const options: Record<string, unknown> = { ...manager.options };
  // They name the session that is gone.
  delete options.sessionId;
  delete options.sessionPassword;
  const another = new Client(address, options);
  for (const { scheme, auth } of manager.credentials ?? []) another.addAuthInfo(scheme, auth);
  return another;
}
