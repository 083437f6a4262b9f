import { tracingChannel } from 'node:diagnostics_channel';
import type { Core } from '../core.ts';
import { callListener } from '../events.ts';
import type { ClaimRef, Mode } from '../store/store.ts';
import { type Use, usedName } from '../use.ts';

/**
 * How an attempt ended. `held`: refused at once, by a call that does not wait, a full queue or a lock
 * of another kind. `aborted`: by the signal of the caller or by `close`. `failed`: by the store.
 */
export type AcquireOutcome = 'acquired' | 'held' | 'timeout' | 'aborted' | 'failed';

/**
 * The message of the tracing channel `holdfast:acquire` of `node:diagnostics_channel`: one attempt
 * to acquire, from the call (`start`, in the caller's asynchronous context) until the call has its
 * answer (`asyncEnd`).
 */
export interface AcquireTrace {
  readonly name: string;
  readonly use: Use;
  readonly id: string;
  readonly owner: string;
  /** The kind of store: `redis`, `postgres` and so on; `other` when the store does not say. */
  readonly store: string;
  readonly mode: Mode;
  readonly waitMs: number;
  outcome: AcquireOutcome | null;
  waitedMs: number;
  fence: bigint | null;
  error?: unknown;
}

/** Receives the attempts of one Locks directly, without the diagnostics channel. */
export interface AcquireObserver {
  /** In the caller's asynchronous context. */
  start(trace: AcquireTrace): void;
  end(trace: AcquireTrace): void;
}

const CHANNEL = tracingChannel<string, AcquireTrace>('holdfast:acquire');

/** Reports the start to the observers. `null` when nothing observes: in most processes. */
export function beginTrace(core: Core, ref: ClaimRef, mode: Mode, waitMs: number): AcquireTrace | null {
  const { acquireObservers: observers, owner } = core;
  if (observers.length === 0 && !CHANNEL.hasSubscribers) return null;
  const claim = { ...usedName(ref.name), id: ref.id, owner, store: core.store.kind ?? 'other' };
  const trace: AcquireTrace = { ...claim, mode, waitMs, outcome: null, waitedMs: 0, fence: null };
  for (const observer of observers) callListener('acquire', observer.start, trace);
  return trace;
}

/**
 * Publishes the start, and runs the attempt in the stores that subscribers have bound to the channel
 * (`start.bindStore`), so that a request to the server sees the context of its attempt.
 */
export function inTrace<T>(trace: AcquireTrace, run: () => T): T {
  if (!CHANNEL.hasSubscribers) return run();
  const result = CHANNEL.start.runStores(trace, run);
  CHANNEL.end.publish(trace);
  return result;
}

export function endTrace(core: Core, trace: AcquireTrace): void {
  for (const observer of core.acquireObservers) callListener('acquire', observer.end, trace);
  if (!CHANNEL.hasSubscribers) return;
  if (trace.error !== undefined) CHANNEL.error.publish(trace);
  CHANNEL.asyncStart.publish(trace);
  CHANNEL.asyncEnd.publish(trace);
}

/** Calls back for the attempts of one Locks. The returned function ends that. */
export function onAcquireTrace(core: Core, observer: AcquireObserver): () => void {
  core.acquireObservers = [...core.acquireObservers, observer];
  return () => {
    core.acquireObservers = core.acquireObservers.filter((each) => each !== observer);
  };
}
