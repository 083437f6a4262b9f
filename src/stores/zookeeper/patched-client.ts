import type { RawClient, Watcher } from './client.ts';

interface Socket {
  readonly connecting?: boolean;
  readonly destroyed?: boolean;
  destroy?(): void;
  ref?(): void;
  unref?(): void;
  removeAllListeners?(event: 'data'): unknown;
  on?(event: 'data', listener: (data: Buffer) => void): unknown;
}

interface Emitter {
  removeListener(event: 'notification', listener: Watcher): unknown;
  listenerCount(event: 'notification'): number;
}

type OnReply = (error: unknown, response?: { readonly header?: { readonly zxid?: unknown } }) => void;

/** The client's `ConnectionManager`. Another version may lack any of these members. */
interface Manager {
  readonly socket?: Socket;
  readonly state?: number;
  readonly options?: { readonly sessionTimeout?: number };
  readonly servers?: readonly { readonly host: string; readonly port: number }[];
  readonly credentials?: readonly { readonly scheme: string; readonly auth: Buffer }[];
  readonly connectionStringParser?: { readonly connectionString?: string };
  readonly watcherManager?: {
    emit?(event: { readonly type: number }): void;
    readonly dataWatchers?: Record<string, Emitter>;
    readonly childWatchers?: Record<string, Emitter>;
    readonly existenceWatchers?: Record<string, Emitter>;
  };
  onSocketData?: (data: Buffer) => void;
  onSocketError?: (error: unknown) => void;
  queue?: (request: unknown, callback?: OnReply) => void;
  /** Calls back with the next member, after a delay if every member has failed. */
  findNextServer?: (callback: (server: unknown) => void) => void;
  readonly connectTimeoutHandler?: NodeJS.Timeout | null;
  pendingBuffer?: Buffer | null;
  on?(event: 'state', listener: (state: number) => void): unknown;
  removeListener?(event: 'state', listener: (state: number) => void): unknown;
  setState?: (state: number) => void;
}

const DISCONNECTED = 0;
const CONNECTING = 1;
const CLOSING = -1;
const CLOSED = -2;
/** The greatest type of a watch event that the client knows: the children have changed. */
const EVENT_MAX = 4;

/** A client is patched once, however many stores share it. */
const patched = new WeakMap<Manager, PatchedClient>();

/**
 * A client of node-zookeeper-client, with additions that a lock needs. Only this class touches the
 * client's internals. All additions are optional: without them a store recovers more slowly, but is
 * still safe, because its own deadline ends every hold.
 */
export class PatchedClient {
  readonly raw: RawClient;
  readonly #manager: Manager;
  #pending = 0;
  /** A connection without a pending request does not keep the process alive. */
  #isUnrefd = false;
  #isEnded = false;
  /**
   * The transaction of the reply that is being delivered; `null` where it is not visible. A server
   * applies one write at a time, and replies with the last transaction that it has applied. For a
   * write that is the write's own transaction.
   */
  replyZxid: bigint | null = null;
  /** Why the last connection failed, if known. The client does not report that. */
  lastError: unknown;

  static of(raw: RawClient): PatchedClient {
    const manager = (raw as { readonly connectionManager?: Manager }).connectionManager ?? {};
    return patched.get(manager) ?? new PatchedClient(raw, manager);
  }

  private constructor(raw: RawClient, manager: Manager) {
    this.raw = raw;
    this.#manager = manager;
    patched.set(manager, this);
    this.#patch();
  }

  /** The session time-out that the client asks for; `null` where it is not visible. */
  get requestedTimeoutMs(): number | null {
    return this.#manager.options?.sessionTimeout ?? null;
  }

  get servers(): readonly { readonly host: string; readonly port: number }[] {
    return this.#manager.servers ?? [];
  }

  /** It was closed, or its session has ended. It cannot be used again. */
  get isClosed(): boolean {
    return this.#manager.state === CLOSING || this.#manager.state === CLOSED;
  }

  /** The client may have asked a server for its session already, or to move it. */
  get mayHaveAsked(): boolean {
    const { state, socket } = this.#manager;
    if (state === CONNECTING) return socket?.connecting === false && socket.destroyed !== true;
    return state !== DISCONNECTED;
  }

  /**
   * Calls back before each attempt to connect, when the owner closes the client, and when it is
   * closed. The client emits no event for these. The result removes the callbacks.
   */
  listen({ onConnecting, onClosing }: { onConnecting(): void; onClosing(): void }): () => void {
    const listener = (state: number): void => {
      if (state === CONNECTING) onConnecting();
      else if (state === CLOSING || state === CLOSED) onClosing();
    };
    this.#manager.on?.('state', listener);
    return () => void this.#manager.removeListener?.('state', listener);
  }

  /**
   * Connects a client that the store has created. Its connection keeps the process alive only while
   * a reply is pending. A client that is connected is left alone: a second connection would tear
   * both down.
   */
  connect(): void {
    this.#isUnrefd = true;
    if ((this.#manager.state ?? DISCONNECTED) === DISCONNECTED) this.raw.connect();
  }

  /** A reply is pending from now on, until `onReply`. */
  onRequest(): void {
    this.#pending += 1;
    if (this.#pending === 1 && this.#isUnrefd) this.#manager.socket?.ref?.();
  }

  onReply(): void {
    this.#pending -= 1;
    if (this.#pending === 0 && this.#isUnrefd) this.#manager.socket?.unref?.();
  }

  /**
   * Ends the connection, not the session, so that the client connects to another member. By itself
   * the client never leaves a silent member.
   */
  dropConnection(): void {
    const { socket, connectTimeoutHandler } = this.#manager;
    if (socket?.destroy === undefined) return;
    // The client does not cancel this timer. It would end the next connection, and keep the process
    // alive.
    clearTimeout(connectTimeoutHandler ?? undefined);
    socket.destroy();
  }

  /**
   * Ends the client for good. By itself, a client that is closed while it connects goes on
   * connecting. It then has a session that never ends, or waits for a silent member for ever.
   */
  end(): void {
    this.#isEnded = true;
    try {
      this.raw.close();
    } catch {
      // There was no connection yet to send it over.
    }
    this.dropConnection();
  }

  /**
   * Drops the client's own record of a watch that has ended, or whose connection was lost. Otherwise
   * the client would set all its watches again after a reconnect, in one packet. The server ends a
   * connection whose packet has more than about ten thousand watches. Watches of other users of the
   * client stay.
   */
  forgetWatch(path: string, watcher: Watcher): void {
    const watchers = this.#manager.watcherManager;
    for (const kind of [watchers?.dataWatchers, watchers?.childWatchers, watchers?.existenceWatchers]) {
      const emitter = kind !== undefined && Object.hasOwn(kind, path) ? kind[path] : undefined;
      emitter?.removeListener('notification', watcher);
      if (emitter?.listenerCount('notification') === 0) delete kind?.[path];
    }
  }

  /**
   * Another client for the same ensemble, with the same options and credentials; `null` when those
   * are not visible. A client whose session has expired cannot be used again.
   */
  another(): RawClient | null {
    const address = this.#manager.connectionStringParser?.connectionString;
    if (address === undefined) return null;
    const Client = this.raw.constructor as new (address: string, options: object) => RawClient;
    const options: Record<string, unknown> = { ...this.#manager.options };
    // These two options name the session that has expired.
    delete options.sessionId;
    delete options.sessionPassword;
    const another = new Client(address, options);
    for (const { scheme, auth } of this.#manager.credentials ?? []) another.addAuthInfo(scheme, auth);
    return another;
  }

  #patch(): void {
    const manager = this.#manager;
    const { queue, findNextServer, onSocketError } = manager;
    if (typeof queue === 'function') {
      manager.queue = (request, callback) =>
        queue.call(manager, request, (error, response) => {
          const zxid = response?.header?.zxid;
          this.replyZxid = Buffer.isBuffer(zxid) && zxid.length === 8 ? zxid.readBigInt64BE() : null;
          rethrowLater(() => callback?.(error, response));
          this.replyZxid = null;
        });
    }
    if (typeof findNextServer === 'function') {
      manager.findNextServer = (callback) =>
        findNextServer.call(manager, (server) => {
          if (this.#isEnded) return;
          callback(server);
          if (this.#isUnrefd) manager.socket?.unref?.();
        });
    }
    if (typeof onSocketError === 'function') {
      manager.onSocketError = (error) => {
        this.lastError = error;
        onSocketError.call(manager, error);
      };
    }
    this.#patchReading();
    // Half a packet of the old connection must not be read as the start of the new one: the client
    // could read from it that the session has expired.
    manager.on?.('state', (state) => {
      if (state === CONNECTING) manager.pendingBuffer = null;
    });
  }

  /**
   * The client throws when a reply has an error code that it does not know. That must end the
   * connection, not the process.
   */
  #patchReading(): void {
    const manager = this.#manager;
    const { socket, watcherManager: watchers, onSocketData, setState } = manager;
    if (typeof onSocketData !== 'function') return;
    const read = (data: Buffer): void => {
      try {
        onSocketData.call(manager, data);
      } catch (error) {
        this.lastError = error;
        manager.socket?.destroy?.();
      }
    };
    manager.onSocketData = read;
    // A client that was connected before passes what it receives to the function that it had then.
    if (socket?.on !== undefined && socket.removeAllListeners !== undefined) {
      socket.removeAllListeners('data');
      socket.on('data', read);
    }
    const notify = watchers?.emit;
    if (watchers !== undefined && typeof notify === 'function')
      watchers.emit = (event) => {
        const call = (): void => notify.call(watchers, event);
        // The client throws for other types.
        if (event.type < 1 || event.type > EVENT_MAX) call();
        // Callbacks after the one that threw were not called, and have no watch any more. One of them
        // may be a claim's, which watches again after a reconnect.
        else if (!rethrowLater(call)) this.dropConnection();
      };
    if (typeof setState === 'function')
      manager.setState = (state) => rethrowLater(() => setState.call(manager, state));
  }
}

/**
 * An exception of the application must not end the connection. It is thrown again, uncaught. False:
 * the callback threw.
 */
function rethrowLater(callback: () => void): boolean {
  try {
    callback();
    return true;
  } catch (error) {
    process.nextTick(() => {
      throw error;
    });
    return false;
  }
}
