import { channel } from 'node:diagnostics_channel';
import { show } from './checks.ts';
import type { HoldLostError, LossReason } from './errors.ts';
import type { ClaimRef, Mode } from './store/store.ts';
import type { Use } from './use.ts';
import { withJson } from './util/to-json.ts';

/** What every event contains. */
interface ClaimEvent {
  /** The lock. */
  readonly name: string;
  /** What the name is used for, as `inspect` takes it: a `once` may have the name of a lock. */
  readonly use: Use;
  /** The claim. */
  readonly id: string;
  readonly owner: string;
}

/** Durations are in milliseconds. */
export interface LockEvents {
  /** Refused for now, and waiting in the queue for at most `waitMs`. */
  waiting: ClaimEvent & { readonly waitMs: number };
  acquired: ClaimEvent & {
    readonly mode: Mode;
    readonly fence: bigint;
    readonly waitedMs: number;
    readonly validForMs: number;
  };
  /**
   * The attempt ended without a hold. `held`: refused at once, by a call that does not wait, or with an
   * `error` because the queue is full or the lock is of another kind. `aborted`: by the signal of the
   * caller or by `close`. `failed`: by the store.
   */
  refused: ClaimEvent & {
    readonly waitedMs: number;
    readonly why: 'held' | 'timeout' | 'aborted' | 'failed';
    readonly error: unknown;
  };
  renewed: ClaimEvent & { readonly tookMs: number; readonly validForMs: number };
  /** One renewal failed. The hold lasts for another `remainingMs`, and the renewal is retried until then. */
  renewFailed: ClaimEvent & {
    readonly error: unknown;
    readonly tookMs: number;
    readonly remainingMs: number;
  };
  lost: ClaimEvent & { readonly how: LossReason; readonly error: HoldLostError; readonly heldForMs: number };
  released: ClaimEvent & { readonly heldForMs: number; readonly tookMs: number };
  /** The store did not confirm the release; the lease expires by itself. */
  releaseFailed: ClaimEvent & { readonly error: unknown; readonly heldForMs: number };
  /** This Locks took the claim away from its owner. */
  evicted: ClaimEvent & { readonly tookMs: number };
  /** The event loop was blocked for more than a third of the TTL of this hold, which is to be renewed. */
  stalled: ClaimEvent & { readonly blockedMs: number; readonly remainingMs: number };
  /** A candidate of this Locks was elected. */
  leader: ClaimEvent & { readonly fence: bigint; readonly waitedMs: number };
}

const EVENTS: readonly (keyof LockEvents)[] = [
  'waiting',
  'acquired',
  'refused',
  'renewed',
  'renewFailed',
  'lost',
  'released',
  'releaseFailed',
  'evicted',
  'leader',
  'stalled',
];

/**
 * Every event is also published on the `node:diagnostics_channel` named `holdfast:<event>`, for all
 * Locks of the process.
 */
const CHANNELS = new Map(EVENTS.map((event) => [event, channel(`holdfast:${event}`)]));

type Listener = (event: never) => void;
type Observer = (claim: ClaimRef, detail: never) => void;

/** What an event says besides its claim. */
export type EventDetail<E extends keyof LockEvents> = Omit<LockEvents[E], 'name' | 'use' | 'id' | 'owner'>;

const NONE: readonly never[] = [];

export class Events {
  /** A list is replaced as a whole, so that a listener may add and remove listeners. */
  readonly #listeners = new Map<keyof LockEvents, readonly Listener[]>();
  readonly #observers = new Map<keyof LockEvents, readonly Observer[]>();

  on<E extends keyof LockEvents>(event: E, listener: (e: LockEvents[E]) => void): () => void {
    // A fresh function, so that the same listener added twice is called twice and each is removed on its own.
    const own: Listener = (e) => listener(e);
    this.#listeners.set(event, [...this.#of(event), own]);
    return () => {
      const others = this.#of(event).filter((each) => each !== own);
      this.#listeners.set(event, others);
    };
  }

  /**
   * For the telemetry of Holdfast itself: called with the stored claim and the detail alone, because
   * making an event takes longer than recording it (`bench telemetry`).
   */
  observe<E extends keyof LockEvents>(
    event: E,
    observer: (claim: ClaimRef, detail: EventDetail<E>) => void,
  ): () => void {
    this.#observers.set(event, [...this.#observersOf(event), observer]);
    return () => {
      const others = this.#observersOf(event).filter((each) => each !== observer);
      this.#observers.set(event, others);
    };
  }

  /**
   * Whether anything listens to the event. Ask before building its detail: most events have no
   * listener, and the uncontended path pays for each object.
   */
  isHeard(event: keyof LockEvents): boolean {
    return this.isWanted(event) || this.#observersOf(event).length > 0;
  }

  /** Whether the event itself has to be made. */
  isWanted(event: keyof LockEvents): boolean {
    return this.#of(event).length > 0 || CHANNELS.get(event)?.hasSubscribers === true;
  }

  tell<E extends keyof LockEvents>(event: E, claim: ClaimRef, detail: EventDetail<E>): void {
    for (const observer of this.#observersOf(event)) callListener(event, observer, claim, detail as never);
  }

  emit<E extends keyof LockEvents>(event: E, detail: LockEvents[E]): void {
    withJson(detail);
    CHANNELS.get(event)?.publish(detail);
    for (const listener of this.#of(event)) callListener(event, listener, detail as never);
  }

  #of(event: keyof LockEvents): readonly Listener[] {
    return this.#listeners.get(event) ?? NONE;
  }

  #observersOf(event: keyof LockEvents): readonly Observer[] {
    return this.#observers.get(event) ?? NONE;
  }
}

export function isEvent(event: unknown): event is keyof LockEvents {
  return CHANNELS.has(event as keyof LockEvents);
}

/**
 * Calls a listener now. Its error must not become a lost renewal or a failed release: it becomes a
 * process warning.
 */
export function callListener<Args extends unknown[]>(
  name: string,
  listener: (...args: Args) => unknown,
  ...args: Args
): void {
  try {
    const result = listener(...args);
    // The listener may be asynchronous, whatever its type says. Only then a promise is made.
    if (isThenable(result)) Promise.resolve(result).catch((error: unknown) => warnOf(name, error));
  } catch (error) {
    warnOf(name, error);
  }
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value;
}

/** Reports the error of a listener as a process warning. */
export function warnOf(name: string, error: unknown): void {
  process.emitWarning(`A holdfast listener for ${name} threw: ${show(error)}`, { code: 'HOLDFAST_LISTENER' });
}
