import { channel } from 'node:diagnostics_channel';
import { show } from './checks.ts';
import type { HoldLostError, LossReason } from './errors.ts';
import type { Mode } from './store/store.ts';

/** What every event tells. */
interface ClaimEvent {
  /** The lock. */
  readonly name: string;
  /** The claim. */
  readonly id: string;
  readonly owner: string;
}

/** Durations are in milliseconds. */
export interface LockEvents {
  /** Refused for now, and waiting in line for at most `waitMs`. */
  waiting: ClaimEvent & { readonly waitMs: number };
  acquired: ClaimEvent & {
    readonly mode: Mode;
    readonly fence: bigint;
    readonly waitedMs: number;
    readonly validForMs: number;
  };
  /** The attempt ended without a hold: held by another, timed out, aborted, or failed. */
  refused: ClaimEvent & {
    readonly waitedMs: number;
    readonly why: 'held' | 'timeout' | 'aborted' | 'failed';
    readonly error: unknown;
  };
  renewed: ClaimEvent & { readonly tookMs: number; readonly validForMs: number };
  /** One renewal failed. The hold stands for `remainingMs` more, and renewal is tried again until then. */
  renewFailed: ClaimEvent & { readonly error: unknown; readonly remainingMs: number };
  lost: ClaimEvent & { readonly how: LossReason; readonly error: HoldLostError; readonly heldForMs: number };
  released: ClaimEvent & { readonly heldForMs: number; readonly tookMs: number };
  /** The store did not confirm the release; the lease runs out by itself. */
  releaseFailed: ClaimEvent & { readonly error: unknown; readonly heldForMs: number };
  /** This Locks took the claim away from its owner. */
  evicted: ClaimEvent & { readonly tookMs: number };
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
];

/** Every event is also published on the `node:diagnostics_channel` named `holdfast:<event>`, for all Locks of the process. */
const CHANNELS = new Map(EVENTS.map((event) => [event, channel(`holdfast:${event}`)]));

type Listener = (event: never) => void;

export class Events {
  readonly #listeners = new Map<keyof LockEvents, Set<Listener>>();

  on<E extends keyof LockEvents>(event: E, listener: (e: LockEvents[E]) => void): () => void {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners);
    // A fresh function, so that the same listener added twice is called twice and each is removed on its own.
    const own: Listener = (e) => listener(e);
    listeners.add(own);
    return () => {
      listeners.delete(own);
    };
  }

  /** Ask before building an event: nobody listens on most of them, and the uncontended path pays for each object. */
  wanted(event: keyof LockEvents): boolean {
    return (this.#listeners.get(event)?.size ?? 0) > 0 || CHANNELS.get(event)?.hasSubscribers === true;
  }

  emit<E extends keyof LockEvents>(event: E, detail: LockEvents[E]): void {
    CHANNELS.get(event)?.publish(detail);
    for (const listener of [...(this.#listeners.get(event) ?? [])]) {
      callListener(event, () => listener(detail as never));
    }
  }
}

export function isEvent(event: unknown): event is keyof LockEvents {
  return CHANNELS.has(event as keyof LockEvents);
}

/** A listener's mistake must not turn into a lost renewal or a failed release: it becomes a warning of the process. */
export function callListener(name: string, call: () => unknown): void {
  // It may be asynchronous, whatever its type says.
  (async () => call())().catch((error: unknown) => warnOf(name, error));
}

/** What a listener threw, where nobody else would hear of it. */
export function warnOf(name: string, error: unknown): void {
  process.emitWarning(`A holdfast listener for ${name} threw: ${show(error)}`, { code: 'HOLDFAST_LISTENER' });
}
