import type { Clock, Timer } from '../../clock.ts';
import { between } from '../shared/retry-after.ts';
import type { QueueSubscription, SubscriptionEvents } from '../shared/server-queue-store.ts';
import { Subscription } from '../shared/subscription.ts';
import type { ConnectionFactory } from './connection.ts';
import { ListeningConnection } from './listening-connection.ts';

const IDLE_MS = 25_000;
/** Without notifications, the first waiters and the observers ask this often. */
const POLL_MS = { min: 250, max: 500 };

/** Receives wake-ups and changes by NOTIFY. Behind a pooler without LISTEN, it polls instead. */
export class LeaseSubscription implements QueueSubscription {
  /**
   * The channel of the last connection. Each has a channel of its own: the server may take a broken
   * connection for an open one, which then keeps the lock of its channel, for hours.
   */
  channel = '';
  events: SubscriptionEvents | null = null;
  /** LISTEN does not work: a pooler shares connections between transactions. */
  isPolling = false;
  readonly #clock: Clock;
  readonly #subscription: Subscription<string>;
  #connection: ListeningConnection | null = null;
  #isClosed = false;
  #pollTimer: Timer | null = null;

  constructor(factory: ConnectionFactory, clock: Clock) {
    this.#clock = clock;
    this.#subscription = new Subscription({
      clock,
      idleMs: IDLE_MS,
      open: (events) => {
        const onEnd = (isForGood?: boolean): void => {
          if (isForGood === true) this.#startPolling();
          events.onEnd(isForGood);
        };
        this.channel = `holdfast_${Math.floor(clock.random() * 2 ** 47).toString(36)}`;
        this.#connection = new ListeningConnection(factory, clock, this.channel, { ...events, onEnd });
        return this.#connection;
      },
      isWanted: () => this.events?.isWanted() === true,
      onUp: () => this.events?.onGap(),
      onDown: () => this.events?.onGap(),
      onMessage: (message) => this.#onMessage(message),
    });
  }

  get isUp(): boolean {
    return this.#subscription.isUp;
  }

  /** Without a pooler, which could keep a notification to itself. */
  get isDirect(): boolean {
    return this.#connection?.isDirect === true;
  }

  async start(): Promise<void> {
    await this.#subscription.start();
    if (this.isPolling) this.#poll();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#pollTimer?.cancel();
    await this.#subscription.close();
  }

  #startPolling(): void {
    this.isPolling = true;
    this.#poll();
    // Observers that are registered already are polled from now on.
    this.events?.onGap();
    warnOfPolling();
  }

  /** Repeats while there are waiters or observers. */
  #poll(): void {
    if (this.#pollTimer !== null || this.#isClosed || this.events?.isWanted() !== true) return;
    this.#pollTimer = this.#clock.startTimer(between(this.#clock, POLL_MS), () => {
      this.#pollTimer = null;
      this.events?.onPoll();
      this.#poll();
    });
  }

  /** As `wake_message` and `notify_observers` of `migrations/` write them; `e`: of an eviction. */
  #onMessage(message: string): void {
    const kind = message[0];
    const rest = message.slice(1);
    if (kind === 'o') this.events?.onChanged(rest, true);
    else if (kind === 'e') this.events?.onEvicted(rest);
    // NOTIFY does not say how old a message is, so a woken waiter has to claim.
    else if (kind === 'g') this.events?.onGranted(rest.slice(rest.indexOf('\n') + 1), null);
  }
}

let hasWarned = false;

/** Once in a process. Stores do not log: the application decides what becomes of a warning. */
function warnOfPolling(): void {
  if (hasWarned) return;
  hasWarned = true;
  process.emitWarning(
    'Holdfast is connected to PostgreSQL through a pooler that shares connections between transactions. ' +
      'LISTEN does not work there, so waiters poll.',
    { type: 'HoldfastWarning', code: 'HOLDFAST_POLLING' },
  );
}
