import { type RawClient, STATE, type Watcher } from './client.ts';

/**
 * What the client library does not offer and a lock needs. Everything here is optional: without it a store is still safe, because its own deadline ends every hold, but finds
 * its way back more slowly.
 */
interface Socket {
  destroy?(): void;
  ref?(): void;
  unref?(): void;
  cork?(): void;
  uncork?(): void;
}

interface Emitter {
  removeListener(event: 'notification', listener: Watcher): unknown;
  listenerCount(event: 'notification'): number;
}

type Answered = (error: unknown, response?: { readonly header?: { readonly zxid?: unknown } }) => void;

interface Internals {
  readonly connectionManager?: {
    readonly socket?: Socket;
    readonly state?: number;
    readonly zxid?: unknown;
    readonly options?: object;
    readonly credentials?: readonly { readonly scheme: string; readonly auth: Buffer }[];
    readonly connectionStringParser?: { readonly connectionString?: string };
    readonly watcherManager?: {
      readonly dataWatchers?: Record<string, Emitter>;
      readonly childWatchers?: Record<string, Emitter>;
      readonly existenceWatchers?: Record<string, Emitter>;
    };
    onSocketData?: (data: Buffer) => void;
    onSocketError?: (error: unknown) => void;
    queue?: (request: unknown, callback?: Answered) => void;
    pendingBuffer?: Buffer | null;
    on?(event: 'state', listener: (state: number) => void): unknown;
    removeListener?(event: 'state', listener: (state: number) => void): unknown;
  };
}

const DISCONNECTED = 0;
const CONNECTING = 1;
const CLOSING = -1;
const CLOSED = -2;

const managerOf = (client: RawClient): Internals['connectionManager'] =>
  (client as Internals).connectionManager;

/** Connects a client that is not connected, nor about to be: a second connection would tear both down. */
export function connectOnce(client: RawClient): void {
  if ((managerOf(client)?.state ?? DISCONNECTED) === DISCONNECTED) client.connect();
}

/**
 * Ends the session. A client that is closed while it connects goes on with that, and then has a session again that nobody ends; before its very first connection it throws besides. So it is closed once more
 * when it has come that far.
 */
export function closeForGood(client: RawClient): void {
  const close = (): void => {
    try {
      client.close();
    } catch {
      // There is no connection yet over which it could say so.
    }
  };
  client.on('state', ({ code }) => {
    if (code === STATE.connected) close();
  });
  close();
}

/** Ends the connection, not the session: the client goes on to another member. By itself it never leaves one that has fallen silent. False when that cannot be done. */
export function dropLink(client: RawClient): boolean {
  const socket = managerOf(client)?.socket;
  if (socket?.destroy === undefined) return false;
  socket.destroy();
  return true;
}

/** An idle connection of ours does not keep the process alive; one that an answer is awaited on does. */
export function keepProcessAlive(client: RawClient, isAwaited: boolean): void {
  const socket = managerOf(client)?.socket;
  if (isAwaited) socket?.ref?.();
  else socket?.unref?.();
}

const corked = new WeakSet<Socket>();

/** Requests of one tick go out in one piece: each by itself would cost a system call here, and wake a thread there. */
export function sendTogether(client: RawClient): void {
  const socket = managerOf(client)?.socket;
  if (socket?.cork === undefined || corked.has(socket)) return;
  corked.add(socket);
  socket.cork();
  const uncork = (): void => {
    corked.delete(socket);
    socket.uncork?.();
  };
  // A line is read one step after the claim is written.
  process.nextTick(() => process.nextTick(uncork));
}

/** The client takes half a packet of an old connection for the beginning of the new one's, and may read from it that its session has expired. Forgets such halves until the result is called. */
export function forgetPartialPackets(client: RawClient): () => void {
  const manager = managerOf(client);
  if (manager?.on === undefined) return () => {};
  const onState = (state: number): void => {
    if (state === CONNECTING) manager.pendingBuffer = null;
  };
  manager.on('state', onState);
  return () => manager.removeListener?.('state', onState);
}

/** Its owner has closed it. The client itself tells nobody. */
export const isClosed = (client: RawClient): boolean => managerOf(client)?.state === CLOSED;

/** Calls back when its owner closes it, also before its first connection, of which the client says nothing itself. The result ends that. */
export function onClosing(client: RawClient, callback: () => void): () => void {
  const manager = managerOf(client);
  if (manager?.on === undefined) return () => {};
  const onState = (state: number): void => {
    if (state === CLOSING || state === CLOSED) callback();
  };
  manager.on('state', onState);
  return () => manager.removeListener?.('state', onState);
}

/** What each client could last not connect for. */
const errors = new WeakMap<object, unknown>();

/** The client tells nobody why it cannot connect. */
export function showErrors(client: RawClient): void {
  const manager = managerOf(client);
  const onError = manager?.onSocketError;
  if (manager === undefined || typeof onError !== 'function' || Object.hasOwn(manager, 'onSocketError'))
    return;
  manager.onSocketError = function shown(this: unknown, error: unknown): void {
    errors.set(manager, error);
    onError.call(this, error);
  };
}

/** Why the last connection failed; `undefined` when that is not known. */
export function lastError(client: RawClient): unknown {
  const manager = managerOf(client);
  return manager === undefined ? undefined : errors.get(manager);
}

/** It is connected now. */
export function forgetError(client: RawClient): void {
  const manager = managerOf(client);
  if (manager !== undefined) errors.delete(manager);
}

/** The header of the answer that is being handed over, of each client. */
const answers = new WeakMap<object, bigint | null>();

/**
 * Makes the transaction visible that an answer stands for, while it is handed over. A server applies one write at a time and answers with the last transaction that it has applied, so for a write that is the write itself.
 */
export function showAnswers(client: RawClient): void {
  const manager = managerOf(client);
  const queue = manager?.queue;
  if (manager === undefined || queue === undefined || answers.has(manager)) return;
  answers.set(manager, null);
  manager.queue = function shown(this: unknown, request: unknown, callback?: Answered): void {
    queue.call(this, request, (error, response) => {
      const zxid = response?.header?.zxid;
      answers.set(manager, Buffer.isBuffer(zxid) && zxid.length === 8 ? zxid.readBigInt64BE() : null);
      try {
        callback?.(error, response);
      } finally {
        answers.set(manager, null);
      }
    });
  };
}

/** The transaction that the answer being handed over stands for; `null` when that cannot be seen. */
export function answerZxid(client: RawClient): bigint | null {
  const manager = managerOf(client);
  return manager === undefined ? null : (answers.get(manager) ?? null);
}

/**
 * The connection is gone, and nobody of ours listens to this path any more. The client has no request to end a watch, and would ask for each of them again after every reconnect, all in one packet: more than ten thousand
 * of them are too big for the server, which then ends the connection. What others watch through the same client is theirs.
 */
export function forgetWatch(client: RawClient, path: string, watcher: Watcher): void {
  const watchers = managerOf(client)?.watcherManager;
  for (const kind of [watchers?.dataWatchers, watchers?.childWatchers, watchers?.existenceWatchers]) {
    const emitter = kind !== undefined && Object.hasOwn(kind, path) ? kind[path] : undefined;
    emitter?.removeListener('notification', watcher);
    if (emitter?.listenerCount('notification') === 0) delete kind?.[path];
  }
}

/** The client throws out of its socket's event when the server answers with a code that it does not know: that must not end the process, only the connection. */
export function guardAnswers(client: RawClient): void {
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
export function anotherLike(client: RawClient): RawClient | null {
  const manager = managerOf(client);
  const address = manager?.connectionStringParser?.connectionString;
  if (manager === undefined || address === undefined) return null;
  const Client = client.constructor as new (address: string, options: object) => RawClient;
  const options: Record<string, unknown> = { ...manager.options };
  // They name the session that is gone.
  delete options.sessionId;
  delete options.sessionPassword;
  const another = new Client(address, options);
  for (const { scheme, auth } of manager.credentials ?? []) another.addAuthInfo(scheme, auth);
  return another;
}
