import type { Clock, Timer } from '../../clock.ts';
import { ClosedError, StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import { type Instant, instant } from '../../store/validity.ts';
import { onAbort } from '../../util/abort.ts';
import { errorText } from '../../util/error-text.ts';
import { Calls } from './calls.ts';
import { STATE } from './client.ts';
import { Heartbeat } from './heartbeat.ts';
import type { PatchedClient } from './patched-client.ts';
import { RequestLimiter } from './request-limiter.ts';
import { Transactions } from './transactions.ts';
import { WatchHub } from './watch-hub.ts';

const CLOSE_MS = 1_000;
/** A failed attempt to connect, such as a refused one, is reported at once after this time. */
const CONNECT_MS = 750;
/** The client library sends a ping after a third of the session time-out without a request. */
const PING_SHARE = 1 / 3;

/** Why a session is over. */
type End = 'expired' | 'refused' | 'closed';

const ENDS: Readonly<Record<End, string>> = {
  expired: 'The session has expired',
  refused: 'ZooKeeper has refused the login',
  closed: 'The client has been closed',
};

/** If the owner has closed the client, the cause tells the core that a retry is pointless. */
function whyOver(end: End): StoreError {
  const cause = end === 'closed' ? new ClosedError(ENDS.closed) : undefined;
  return new StoreError(ENDS[end], { applied: 'no', cause });
}

/** The sessions of clients that users have passed in. Stores over one client share its session. */
const shared = new WeakMap<PatchedClient, Session>();

/**
 * One client and its session. A client cannot be used again once its session has expired. All
 * claims of a store share the session, and so do all stores over the same client.
 */
export class Session {
  readonly client: PatchedClient;
  readonly #clock: Clock;
  readonly #isOurs: boolean;
  readonly #startedAt: Instant;
  readonly #heartbeat: Heartbeat;
  readonly #waiting = new Set<() => void>();
  readonly #users = new Set<() => void>();
  readonly #stopListening: () => void;
  #isConnected = false;
  /** When the last connection ended. The next one began after that. */
  #disconnectedAt: Instant;
  #end: End | null = null;
  /** The session's id in hexadecimal; empty before the first connection. */
  id = '';
  readonly calls: Calls;
  readonly transactions: Transactions;
  readonly watches: WatchHub;
  readonly limiter: RequestLimiter;

  /** The session of a client that a user has passed in. */
  static of(client: PatchedClient, clock: Clock): Session {
    const found = shared.get(client);
    if (found !== undefined && found.#clock === clock) return found;
    const session = new Session(client, false, clock);
    shared.set(client, session);
    return session;
  }

  /** `isOurs`: a store has created the client, and connects and closes it. */
  constructor(client: PatchedClient, isOurs: boolean, clock: Clock) {
    this.client = client;
    this.#isOurs = isOurs;
    this.#clock = clock;
    this.#startedAt = instant(clock);
    this.#disconnectedAt = this.#startedAt;
    this.#heartbeat = new Heartbeat(clock, {
      ask: () => this.calls.exists('/'),
      dropConnection: () => this.#dropConnection(),
    });
    this.calls = new Calls(client, clock, (sent, isWrite) => this.#heartbeat.onReply(sent, isWrite));
    this.limiter = new RequestLimiter(
      clock,
      () => this.#isConnected,
      () => this.#heartbeat.timeoutMs,
    );
    this.transactions = new Transactions(this.calls, clock);
    this.watches = new WatchHub(this.calls, client);
    this.#stopListening = client.onClosing(() => this.#onClosing());
    client.raw.on('state', this.#onState);
    if (isOurs) client.connect();
    if (client.raw.getState().code === STATE.connected) this.#onConnected();
  }

  /**
   * Calls back after every reconnect and at the end. The result ends this use, and the last use the
   * session.
   */
  use(onChange: () => void): () => Promise<void> {
    this.#users.add(onChange);
    return async () => {
      if (this.#users.delete(onChange) && this.#users.size === 0) await this.#close();
    };
  }

  get isOver(): boolean {
    return this.#end !== null;
  }

  /** Requests can be sent. */
  get isUsable(): boolean {
    return this.#isConnected && !this.isOver;
  }

  /** Throws when the owner has closed the client: the store then creates no other client. */
  assertNotClosed(): void {
    if (this.#end === 'closed') throw whyOver('closed');
  }

  /** How long the session can be trusted, counted from `from`. */
  leftMs(from: Instant): number {
    return this.isOver ? 0 : this.#heartbeat.leftMs(from);
  }

  /**
   * Resolves when requests can be sent. Before that nothing is passed to the client, which would
   * keep a request and send it after the next connect, when its caller may have given up. Rejects
   * with `applied: 'no'` when the connection takes too long, or when the session is over.
   */
  async ready(signal: AbortSignal | undefined): Promise<void> {
    if (!this.#isConnected && !this.isOver) await this.#connected(signal);
    if (this.#isConnected) return;
    if (this.#end !== null) throw whyOver(this.#end);
    const cause = this.client.lastError;
    const why = cause === undefined ? '' : `: ${errorText(cause)}`;
    throw new StoreError(`No member of ZooKeeper can be reached${why}`, { applied: 'no', cause });
  }

  #notify(): void {
    for (const onChange of [...this.#users]) onChange();
  }

  /** Leaves a user's client alone. Ends a client of the store, and with it the session. */
  async #close(): Promise<void> {
    if (shared.get(this.client) === this) shared.delete(this.client);
    this.#heartbeat.stop();
    if (this.#isOurs && this.isUsable) await this.#endSession();
    this.client.raw.removeListener('state', this.#onState);
    this.#stopListening();
    this.watches.reset();
    this.#over('closed');
    if (this.#isOurs) this.client.end();
  }

  #dropConnection(): void {
    if (this.client.dropConnection()) this.#disconnectedAt = instant(this.#clock);
  }

  /** Resolves when the session is connected or over, the signal aborts, or too much time has passed. */
  #connected(signal: AbortSignal | undefined): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        timer.cancel();
        stopListening();
        this.#waiting.delete(done);
        resolve();
      };
      const start = (ms: number, next: () => void): Timer =>
        this.#clock.startTimer(ms, next, { keepAlive: true });
      let timer = start(CONNECT_MS, () => {
        if (this.client.lastError !== undefined) done();
        else timer = start(DEFAULTS.commandMs - CONNECT_MS, done);
      });
      const stopListening = onAbort(signal, done);
      if (signal?.aborted === true) done();
      else this.#waiting.add(done);
    });
  }

  /** Asks the server to end the session. The reply may never come. */
  async #endSession(): Promise<void> {
    await new Promise<void>((resolve) => {
      const timer = this.#clock.startTimer(CLOSE_MS, resolve, { keepAlive: true });
      this.client.raw.on('state', ({ code }) => {
        if (code === STATE.connected) return;
        timer.cancel();
        resolve();
      });
      this.client.raw.close();
    });
  }

  readonly #onState = ({ code }: { readonly code: number }): void => {
    if (this.isOver) return;
    if (code === STATE.connected) this.#onConnected();
    else if (code === STATE.expired) this.#over('expired');
    else if (code === STATE.authFailed) this.#over('refused');
    else if (code === STATE.disconnected) this.#onDisconnected();
  };

  /** A connected client ends its session first, is then disconnected, and then closed. */
  #onClosing(): void {
    if (!this.#isConnected) this.#over('closed');
  }

  #onConnected(): void {
    this.client.lastError = undefined;
    const isAgain = this.id !== '';
    const timeoutMs = this.client.raw.getSessionTimeout();
    this.id = this.client.raw.getSessionId().readBigUInt64BE().toString(16);
    if (isAgain) this.#heartbeat.reopen(this.#disconnectedAt);
    else this.#heartbeat.begin(this.#knownSince(timeoutMs), timeoutMs);
    this.#isConnected = true;
    this.#heartbeat.start(timeoutMs, true);
    for (const done of [...this.#waiting]) done();
    if (isAgain) this.#notify();
  }

  /** The store's own session began after the store asked for it. A user's client has sent pings. */
  #knownSince(timeoutMs: number): Instant {
    if (this.#isOurs) return this.#startedAt;
    const agoMs = timeoutMs * PING_SHARE;
    const { monotonicMs, wallMs } = this.#startedAt;
    return { monotonicMs: monotonicMs - agoMs, wallMs: wallMs - agoMs };
  }

  #onDisconnected(): void {
    this.#isConnected = false;
    this.#disconnectedAt = instant(this.#clock);
    this.watches.reset();
    this.calls.dropReads();
    this.#heartbeat.start(this.client.raw.getSessionTimeout(), false);
  }

  #over(end: End): void {
    if (this.isOver) return;
    this.#end = end;
    this.#isConnected = false;
    this.#heartbeat.stop();
    // The client cannot be used again, and would wait for the server to end the connection.
    if (end !== 'closed') {
      this.client.dropConnection();
      this.calls.dropReads();
    }
    for (const done of [...this.#waiting]) done();
    this.#notify();
  }
}
