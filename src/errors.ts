import type { Mode } from './store/store.ts';
import { usedName } from './use.ts';
import { errorToJson, fieldsToJson, isError } from './util/to-json.ts';
import { type ClaimView, HOLDERS_MAX } from './view.ts';

/**
 * Every error Holdfast throws. Test the `code`, not the class: two copies of the package in one
 * program then still agree.
 */
export abstract class HoldfastError extends Error {
  abstract readonly code: string;

  /** Name, code, message and plain fields; of a `cause` its name, code and message. */
  toJSON(): object {
    const { message, cause } = this;
    const json = { ...fieldsToJson(this), message };
    return isError(cause) ? { ...json, cause: errorToJson(cause) } : json;
  }
}

/**
 * Names come from users and from other programs. They are shown unchanged and quoted, so that no
 * name can be mistaken for a part of the message.
 */
const quoted = (text: string): string => JSON.stringify(usedName(text).name);

const seconds = (ms: number): string => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

function describeHolder(holder: ClaimView): string {
  const who = holder.owner === null ? `claim ${quoted(holder.id)}` : quoted(holder.owner);
  const since = holder.heldForMs === null ? '' : ` for ${seconds(holder.heldForMs)}`;
  const until = holder.expiresInMs === null ? '' : `, its lease ends in ${seconds(holder.expiresInMs)}`;
  return `${who}${since}${until}`;
}

/**
 * Whether the first holder is a hold of the Locks that waited: `caller` when the code that waits is
 * inside that hold, `process` when another call of this process holds it, as far as is known.
 */
type SelfHeld = 'no' | 'process' | 'caller';

const SELF_TEXT: Record<SelfHeld, string> = {
  no: '%',
  process: '%, in this process',
  caller: 'the waiting code itself (see the option reentrant), %',
};

function describeTimeout(
  lock: string,
  waitedMs: number,
  holders: readonly ClaimView[],
  self: SelfHeld,
): string {
  const waited = `Waited ${seconds(waitedMs)} for lock ${quoted(lock)}`;
  const [first, ...others] = holders;
  if (first === undefined) return `${waited}; no holder is known now`;
  const count = holders.length < HOLDERS_MAX ? others.length : 'many';
  const more = others.length === 0 ? '' : ` and ${count} more`;
  return `${waited}; held by ${SELF_TEXT[self].replace('%', () => describeHolder(first))}${more}`;
}

/** The wait timed out while others held the lock. */
export class AcquireTimeoutError extends HoldfastError {
  override readonly name = 'AcquireTimeoutError';
  readonly code = 'ACQUIRE_TIMEOUT';
  readonly lock: string;
  readonly waitedMs: number;
  /** The holders when the wait timed out, 100 at most; empty when the store did not answer in time. */
  readonly holders: ClaimView[];
  /** Our position in the queue, 1 is next; `null` where it is not known. */
  readonly position: number | null;

  constructor(
    lock: string,
    waitedMs: number,
    holders: ClaimView[] = [],
    position: number | null = null,
    self: SelfHeld = 'no',
  ) {
    super(describeTimeout(lock, waitedMs, holders, self));
    this.lock = lock;
    this.waitedMs = waitedMs;
    this.holders = holders;
    this.position = position;
  }
}

/** The queue of the lock has reached its bound; this claim did not enter it. */
export class QueueFullError extends HoldfastError {
  override readonly name = 'QueueFullError';
  readonly code = 'QUEUE_FULL';
  readonly lock: string;
  readonly queueMax: number;

  constructor(lock: string, queueMax: number) {
    super(`The queue of lock ${quoted(lock)} is full: ${queueMax} claims are waiting`);
    this.lock = lock;
    this.queueMax = queueMax;
  }
}

/**
 * `expired`: the hold was not renewed in time, or reached `maxHoldMs`. `taken`: the store says that
 * the claim is gone. `session`: the session of the claim ended. `closed`: the Locks was closed.
 * `released`: the hold was released normally and then used.
 */
export type LossReason = 'expired' | 'taken' | 'session' | 'closed' | 'released';

const LOSS_TEXT: Record<LossReason, string> = {
  expired: 'its time ran out',
  taken: 'the store says so',
  session: 'its session is gone',
  closed: 'its Locks was closed',
  released: 'it was released',
};

/** The hold can no longer be trusted. Also the reason of the hold's aborted signal. */
export class HoldLostError extends HoldfastError {
  override readonly name = 'HoldLostError';
  readonly code = 'HOLD_LOST';
  readonly lock: string;
  readonly fence: bigint;
  readonly how: LossReason;
  /** What the function returned, when `run` throws this after the function had finished. */
  readonly value: unknown;
  /** Set when the hold expired because a blocked event loop sent no renewals. */
  readonly stall: { readonly blockedMs: number; readonly ttlMs: number } | undefined;

  constructor(
    lock: string,
    fence: bigint,
    how: LossReason,
    value?: unknown,
    stall?: { readonly blockedMs: number; readonly ttlMs: number },
  ) {
    const why =
      stall === undefined
        ? ''
        : ` (the event loop was blocked for ${seconds(stall.blockedMs)}, the TTL is ${seconds(stall.ttlMs)})`;
    super(`Lock ${quoted(lock)} is not held any more: ${LOSS_TEXT[how]}${why}`);
    this.lock = lock;
    this.fence = fence;
    this.how = how;
    this.value = value;
    this.stall = stall;
  }

  /** The value is the user's own data, which may be large or secret: it stays out of logs. */
  override toJSON(): object {
    const { value: _, ...json } = super.toJSON() as { value?: unknown };
    return json;
  }
}

/** A fence gate has seen a newer fence for this resource: the writer no longer holds the lock. */
export class StaleFenceError extends HoldfastError {
  override readonly name = 'StaleFenceError';
  readonly code = 'STALE_FENCE';
  readonly resource: string;
  readonly fence: bigint;
  readonly latest: bigint;

  constructor(resource: string, fence: bigint, latest: bigint) {
    super(`Fence ${fence} is stale for ${quoted(resource)}: ${latest} was seen before`);
    this.resource = resource;
    this.fence = fence;
    this.latest = latest;
  }
}

/** `no`: the command had no effect. `unknown`: it may have had one. */
export type Applied = 'no' | 'unknown';

/**
 * The backend failed or did not answer in time. Never means that a lock is held by another, and
 * never that a hold is lost.
 */
export class StoreError extends HoldfastError {
  override readonly name: string = 'StoreError';
  readonly code: 'STORE' | 'QUORUM' = 'STORE';
  readonly applied: Applied;

  constructor(message: string, options: { cause?: unknown; applied: Applied }) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.applied = options.applied;
  }
}

/** How one node of a quorum answered. */
export interface Vote {
  readonly node: string;
  readonly answer: 'granted' | 'refused' | 'failed';
  readonly error?: unknown;
}

/** No majority of the nodes answered. */
export class QuorumError extends StoreError {
  override readonly name = 'QuorumError';
  override readonly code = 'QUORUM';
  readonly votes: readonly Vote[];

  constructor(message: string, votes: readonly Vote[], applied: Applied) {
    super(message, { applied, cause: votes.find((vote) => vote.error !== undefined)?.error });
    this.votes = votes;
  }
}

const describeMode = (mode: Mode): string =>
  mode.kind === 'permits'
    ? `a semaphore of ${mode.of} permits`
    : `${mode.kind === 'shared' ? 'a read' : 'an exclusive'} lock`;

/** Two programs disagree on the kind of lock of this name, or on its number of permits. */
export class ModeMismatchError extends HoldfastError {
  override readonly name = 'ModeMismatchError';
  readonly code = 'MODE_MISMATCH';
  readonly lock: string;
  readonly asked: Mode;
  readonly present: Mode;

  constructor(lock: string, asked: Mode, present: Mode) {
    super(`Lock ${quoted(lock)} is in use as ${describeMode(present)}, not as ${describeMode(asked)}`);
    this.lock = lock;
    this.asked = asked;
    this.present = present;
  }
}

/** This store cannot do that. Thrown when the primitive is made, not when it is used. */
export class UnsupportedError extends HoldfastError {
  override readonly name = 'UnsupportedError';
  readonly code = 'UNSUPPORTED';
}

/** A bad name, duration, count, owner or metadata. Thrown before any I/O. */
export class InvalidArgumentError extends HoldfastError {
  override readonly name = 'InvalidArgumentError';
  readonly code = 'INVALID_ARGUMENT';
  /** The name of the argument, as the caller spelled it. */
  readonly argument: string;

  constructor(argument: string, problem: string) {
    super(`${argument} ${problem}`);
    this.argument = argument;
  }
}

/** The Locks, or the store, is closed or closing. */
export class ClosedError extends HoldfastError {
  override readonly name = 'ClosedError';
  readonly code = 'CLOSED';

  constructor(message = 'This Locks is closed') {
    super(message);
  }
}
