import type { Clock } from '../../clock.ts';
import { ClosedError, StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import { type Instant, instant } from '../../store/validity.ts';
import { onAbort } from '../../util/abort.ts';
import { pause } from '../../util/backoff.ts';
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
/**
 * How old the leader's knowledge of a connected session can be, as a share of its time-out: the
 * client library sends a ping after a third without a request, and a member reports that every half
 * tick, which is at most a quarter. A client whose event loop was blocked may have sent none.
 */
const KNOWN_SHARE = 1 / 3 + 1 / 4;

/** Why a session is over. */
const ENDS = {
  expired: 'The session has expired',
  refused: 'ZooKeeper has refused the login',
  closed: 'The client has been closed',
};
type End = keyof typeof ENDS;

/** The sessions of clients that users have passed in. Stores over one client share its session. */
const shared = new WeakMap<PatchedClient, Session>();

/**
 * One client and its session. A client cannot be used again once its session has expired. All
 * claims of a store share the session, and so do all stores over the same client.
 */
export class Session {
  readonly client: PatchedClient;
  readonly isOurs: boolean;
  readonly #clock: Clock;
  readonly #heartbeat: Heartbeat;
  readonly #waiting = new Set<() => void>();
  readonly #users = new Set<() => void>();
  readonly #stopListening: () => void;
  /** Requests can be sent. */
  isUsable = false;
  /** The present or next connection began after that. */
  #openedAfter: Instant;
  /** The client may have had its session before this object was made. */
  #mayBeOlder: boolean;
  #end: End | null = null;
  /** The session's id in hexadecimal; empty before the first connection. */
  id = '';
  readonly calls: Calls;
  readonly transactions: Transactions;
  readonly watches: WatchHub;
  readonly limiter: RequestLimiter;

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
    this.isOurs = isOurs;
    this.#clock = clock;
    this.#openedAfter = instant(clock);
    this.#mayBeOlder = client.mayHaveAsked;
    this.#heartbeat = new Heartbeat(clock, {
      ask: () => this.calls.exists('/'),
      dropConnection: () => client.dropConnection(),
    });
    this.calls = new Calls(client, clock, this.#heartbeat);
    this.limiter = new RequestLimiter(
      clock,
      () => this.isUsable,
      () => this.#heartbeat.timeoutMs,
    );
    this.transactions = new Transactions(this.calls, clock);
    this.watches = new WatchHub(this.calls, client);
    this.#stopListening = client.listen({
      onConnecting: () => {
        if (!this.isUsable) this.#beginConnecting();
      },
      // A connected client ends its session first, is then disconnected, and then closed.
      onClosing: () => {
        if (!this.isUsable) this.#over('closed');
      },
    });
    client.raw.on('state', this.#onState);
    if (isOurs) client.connect();
    if (client.isClosed) this.#over('closed');
    else if (client.raw.getState().code === STATE.connected) this.#onConnected();
    else this.#heartbeat.start(client.raw.getSessionTimeout(), null);
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

  /** It is over, and another can follow: the owner has not closed the client. */
  get isReplaceable(): boolean {
    return this.isOver && this.#end !== 'closed';
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
    if (!this.isUsable && !this.isOver) await this.#connected(signal);
    if (this.isUsable) return;
    if (this.#end !== null) {
      // If the owner has closed the client, the cause tells the core that a retry is pointless.
      const cause = this.#end === 'closed' ? new ClosedError(ENDS.closed) : undefined;
      throw new StoreError(ENDS[this.#end], { applied: 'no', cause });
    }
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
    if (this.isOurs && this.isUsable) await this.#endSession();
    this.client.raw.removeListener('state', this.#onState);
    this.#stopListening();
    this.watches.reset();
    this.#over('closed');
    if (this.isOurs) this.client.end();
  }

  /** Resolves when the session is connected or over, the signal aborts, or too much time has passed. */
  async #connected(signal: AbortSignal | undefined): Promise<void> {
    if (signal?.aborted === true) return;
    const waiting = new AbortController();
    const done = (): void => waiting.abort();
    const stopListening = onAbort(signal, done);
    this.#waiting.add(done);
    const options = { keepAlive: true, signal: waiting.signal };
    await pause(this.#clock, CONNECT_MS, options);
    if (!waiting.signal.aborted && this.client.lastError === undefined)
      await pause(this.#clock, DEFAULTS.commandMs - CONNECT_MS, options);
    stopListening();
    this.#waiting.delete(done);
  }

  /** Asks the server to end the session. The reply may never come. */
  async #endSession(): Promise<void> {
    const ended = new AbortController();
    this.client.raw.on('state', () => ended.abort());
    this.client.raw.close();
    await pause(this.#clock, CLOSE_MS, { keepAlive: true, signal: ended.signal });
  }

  readonly #onState = ({ code }: { readonly code: number }): void => {
    if (this.isOver) return;
    if (code === STATE.connected) this.#onConnected();
    else if (code === STATE.expired) this.#over('expired');
    else if (code === STATE.authFailed) this.#over('refused');
    else if (code === STATE.disconnected) this.#onDisconnected();
  };

  #onConnected(): void {
    this.client.lastError = undefined;
    const isAgain = this.id !== '';
    const timeoutMs = this.client.raw.getSessionTimeout();
    this.id = this.client.raw.getSessionId().readBigUInt64BE().toString(16);
    const agoMs = this.#mayBeOlder ? timeoutMs * KNOWN_SHARE : 0;
    const { monotonicMs, wallMs } = this.#openedAfter;
    this.isUsable = true;
    this.#heartbeat.start(timeoutMs, { monotonicMs: monotonicMs - agoMs, wallMs: wallMs - agoMs });
    for (const done of [...this.#waiting]) done();
    if (isAgain) this.#notify();
  }

  #beginConnecting(): void {
    this.#openedAfter = instant(this.#clock);
    this.#mayBeOlder = false;
  }

  #onDisconnected(): void {
    this.isUsable = false;
    this.#beginConnecting();
    this.watches.reset();
    this.calls.dropPending();
    this.#heartbeat.start(this.client.raw.getSessionTimeout(), null);
  }

  #over(end: End): void {
    if (this.isOver) return;
    this.#end = end;
    this.isUsable = false;
    this.#heartbeat.stop();
    // The client cannot be used again, and would wait for the server to end the connection.
    if (end !== 'closed') {
      this.client.dropConnection();
      this.calls.dropPending();
    }
    for (const done of [...this.#waiting]) done();
    this.#notify();
  }
}
