import type { Clock } from '../../clock.ts';
import { backoff } from '../../util/backoff.ts';
import { KeyedTimers } from './keyed-timers.ts';

/** What a connection reports. Calls after `onEnd`, or after it was closed, have no effect. */
export interface ConnectionEvents<Message> {
  onMessage(message: Message): void;
  /**
   * It is subscribed: from here on, nothing is missed. A connection that reconnects by itself calls
   * it each time.
   */
  onUp(): void;
  /** Messages may be missed from here on, until the next `onUp`. */
  onDown(): void;
  /**
   * The connection has ended, and does not reconnect by itself. `isForGood`: another connection
   * would end too, so none is opened.
   */
  onEnd(isForGood?: boolean): void;
}

/**
 * A connection that subscribes by itself as soon as it is open. It must not keep the process alive.
 */
export interface SubscribedConnection {
  /** At any time, also while it is being opened. */
  close(): Promise<void> | void;
  /** Resolves when the server has answered. */
  checkAlive?(): Promise<unknown>;
}

export interface SubscriptionOptions<Message> {
  readonly clock: Clock;
  open(events: ConnectionEvents<Message>): SubscribedConnection;
  /** How long a connection that is not wanted stays open. Default: for ever. */
  readonly idleMs?: number;
  /**
   * Whether any caller waits for a message. A connection that is not wanted is not replaced when it
   * ends.
   */
  isWanted(): boolean;
  /** Subscribed, at first and after every reconnect. Earlier messages may have been missed. */
  onUp?(): void;
  onDown?(): void;
  onMessage(message: Message): void;
}

/**
 * How long `start` waits for the connection: messages are hints, and asking again is the guarantee.
 */
const START_MS = 1_000;
/** An attempt without an answer is given up after this time, because it may never fail by itself. */
const ATTEMPT_MS = 10_000;
/** The delays before a connection that has ended is replaced: meanwhile, waiters have to poll. */
const RETRY_MS = { min: 100, max: 5_000 };
/** How often the connection is checked, because a dead connection reports nothing. */
const HEARTBEAT_MS = 5_000;
/** How long the answer to a heartbeat may take. */
const ANSWER_MS = 3_000;

/**
 * The connection over which a store is notified: opened when first needed, replaced when it breaks,
 * closed when idle.
 */
export class Subscription<Message> {
  readonly #options: SubscriptionOptions<Message>;
  #connection: SubscribedConnection | null = null;
  /** Changes when a connection is opened or given up: an old one is no longer listened to. */
  #epoch = 0;
  #isUp = false;
  #isOver = false;
  #failures = 0;
  #upAtMs = 0;
  readonly #timers: KeyedTimers<'limit' | 'retry' | 'heartbeat' | 'idle'>;
  /**
   * Resolves when the connection is up, or after `START_MS`. After that, `start` does not wait again
   * until the connection has been up.
   */
  #started: Promise<void> | null = null;
  #endStart = (): void => {};

  constructor(options: SubscriptionOptions<Message>) {
    this.#options = options;
    this.#timers = new KeyedTimers(options.clock);
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Opens the connection if there is none. Resolves when it is subscribed, or after a second. */
  async start(): Promise<void> {
    if (this.#isUp || this.#isOver) return;
    if (this.#connection === null && !this.#timers.has('retry')) this.#open();
    if (this.#isUp || this.#isOver) return;
    this.#started ??= new Promise((resolve) => {
      const timer = this.#options.clock.startTimer(START_MS, resolve);
      this.#endStart = () => {
        timer.cancel();
        resolve();
      };
    });
    await this.#started;
  }

  async close(): Promise<void> {
    this.#isOver = true;
    this.#endStart();
    await this.#drop();
  }

  /** No caller waits for messages. If that is still so after `idleMs`, the connection is closed. */
  onUnwanted(): void {
    const { idleMs, isWanted } = this.#options;
    if (idleMs === undefined || this.#timers.has('idle') || this.#connection === null) return;
    this.#timers.set('idle', idleMs, () => {
      if (!isWanted()) void this.#drop();
    });
  }

  #open(): void {
    this.#epoch += 1;
    const epoch = this.#epoch;
    const ifCurrent = (act: () => void): void => {
      if (this.#epoch === epoch) act();
    };
    const onEnd = (isForGood?: boolean): void => ifCurrent(() => this.#onEnd(isForGood === true));
    this.#timers.set('limit', ATTEMPT_MS, onEnd);
    try {
      const connection = this.#options.open({
        onMessage: (message) => ifCurrent(() => this.#options.onMessage(message)),
        onUp: () => ifCurrent(() => this.#onUp()),
        onDown: () => ifCurrent(() => this.#onDown()),
        onEnd,
      });
      if (this.#epoch === epoch) this.#connection = connection;
      else void closeQuietly(connection);
    } catch {
      // The user's client may refuse to be duplicated, for example. No caller awaits this.
      onEnd();
    }
  }

  #onUp(): void {
    if (this.#isUp) return;
    this.#isUp = true;
    this.#upAtMs = this.#options.clock.monotonicMs();
    this.#timers.delete('limit');
    this.#beat();
    this.#endStart();
    this.#started = null;
    this.#options.onUp?.();
  }

  #onDown(): void {
    if (!this.#isUp) return;
    this.#isUp = false;
    this.#timers.delete('heartbeat');
    // It may not come up again by itself.
    this.#timers.set('limit', ATTEMPT_MS, () => this.#onEnd(false));
    this.#options.onDown?.();
  }

  #onEnd(isForGood: boolean): void {
    const { clock, isWanted } = this.#options;
    this.#isOver ||= isForGood;
    if (this.#isOver) this.#endStart();
    const wasUp = this.#isUp;
    void this.#drop();
    if (!this.#isOver && isWanted()) {
      this.#timers.set('retry', backoff(clock, this.#failures++, RETRY_MS), () => {
        if (isWanted()) this.#open();
      });
    }
    if (wasUp) this.#options.onDown?.();
  }

  /** Sends heartbeats, and replaces the connection when one is not answered. */
  #beat(): void {
    this.#timers.set('heartbeat', HEARTBEAT_MS, () => {
      if (this.#options.isWanted()) this.#timers.delete('idle');
      else this.onUnwanted();
      void this.#checkAlive();
    });
  }

  async #checkAlive(): Promise<void> {
    const { clock } = this.#options;
    const epoch = this.#epoch;
    const isCurrent = (): boolean => this.#epoch === epoch && this.#isUp;
    const limit = clock.startTimer(ANSWER_MS, () => isCurrent() && this.#onEnd(false));
    try {
      await this.#connection?.checkAlive?.();
      if (isCurrent()) this.#beat();
    } catch {
      if (isCurrent()) this.#onEnd(false);
    } finally {
      limit.cancel();
    }
  }

  async #drop(): Promise<void> {
    const { clock } = this.#options;
    const connection = this.#connection;
    // A connection that ends as soon as it is up has failed too.
    if (this.#isUp && clock.monotonicMs() - this.#upAtMs > RETRY_MS.max) this.#failures = 0;
    this.#epoch += 1;
    this.#connection = null;
    this.#isUp = false;
    this.#timers.clear();
    await closeQuietly(connection);
  }
}

/** Ignores errors: no caller could act on a connection that fails to close. */
async function closeQuietly(connection: SubscribedConnection | null): Promise<void> {
  try {
    await connection?.close();
  } catch {}
}
