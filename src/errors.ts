import { givenName } from './primitives/namespace.ts';
import type { Mode } from './store/store.ts';
import type { ClaimView } from './view.ts';

/**
 * Every error Holdfast throws. Test the `code`, not the class: two copies of the package in one program then still agree.
 */
export abstract class HoldfastError extends Error {
  abstract readonly code: string;
}

/** Names come from users and from other programs: shown as they gave them, and quoted, so that nothing in them can pass for our words. */
const quoted = (text: string): string => JSON.stringify(givenName(text));

const seconds = (ms: number): string => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`);

function describeHolder(holder: ClaimView): string {
  const who = holder.owner === null ? `claim ${quoted(holder.id)}` : quoted(holder.owner);
  const since = holder.heldForMs === null ? '' : ` for ${seconds(holder.heldForMs)}`;
  const until = holder.expiresInMs === null ? '' : `, its lease ends in ${seconds(holder.expiresInMs)}`;
  return `${who}${since}${until}`;
}

function describeTimeout(
  lock: string,
  waitedMs: number,
  holders: readonly ClaimView[],
  isOurs: boolean,
): string {
  const waited = `Waited ${seconds(waitedMs)} for lock ${quoted(lock)}`;
  const [first, ...others] = holders;
  if (first === undefined) return `${waited}; nobody is seen to hold it now`;
  const more = others.length === 0 ? '' : ` and ${others.length} more`;
  const ours = isOurs ? 'this process itself (see the option reentrant), ' : '';
  return `${waited}; held by ${ours}${describeHolder(first)}${more}`;
}

/** The wait ran out while somebody else held the lock. */
export class AcquireTimeoutError extends HoldfastError {
  override readonly name = 'AcquireTimeoutError';
  readonly code = 'ACQUIRE_TIMEOUT';
  readonly lock: string;
  readonly waitedMs: number;
  /** Who held it when the wait ran out; empty when the store could not say in time. */
  readonly holders: ClaimView[];
  /** Our place in line, 1 is next; `null` where it is not known. */
  readonly position: number | null;

  /** `isOurs`: whether the first of the holders is a hold of the very Locks that waited. */
  constructor(
    lock: string,
    waitedMs: number,
    holders: ClaimView[] = [],
    position: number | null = null,
    isOurs = false,
  ) {
    super(describeTimeout(lock, waitedMs, holders, isOurs));
    this.lock = lock;
    this.waitedMs = waitedMs;
    this.holders = holders;
    this.position = position;
  }
}

/** The lock's line has reached its bound; this claim did not enter it. */
export class LineFullError extends HoldfastError {
  override readonly name = 'LineFullError';
  readonly code = 'LINE_FULL';
  readonly lock: string;
  readonly lineMax: number;

  constructor(lock: string, lineMax: number) {
    super(`The line of lock ${quoted(lock)} is full: ${lineMax} claims are waiting`);
    this.lock = lock;
    this.lineMax = lineMax;
  }
}

/**
 * `expired`: its time ran out, unconfirmed or by `maxHoldMs`. `taken`: the store says that it is no longer ours. `session`: the session that
 * carried it ended. `closed`: the Locks was closed. `released`: it was given up normally and then asked about.
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

  constructor(lock: string, fence: bigint, how: LossReason, value?: unknown) {
    super(`Lock ${quoted(lock)} is not held any more: ${LOSS_TEXT[how]}`);
    this.lock = lock;
    this.fence = fence;
    this.how = how;
    this.value = value;
  }
}

/** A gate has seen a newer fence for this resource: the writer is a holder of the past. */
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

/** `no`: the command had no effect. `unknown`: it may have had. */
export type Applied = 'no' | 'unknown';

/** The backend failed or did not answer in time. Never means that a lock is held by another, and never that a hold is lost. */
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

/** Two programs disagree on what kind of lock this name is, or on its number of permits. */
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
  /** Which argument, as the caller spelled it. */
  readonly argument: string;

  constructor(argument: string, problem: string) {
    super(`${argument} ${problem}`);
    this.argument = argument;
  }
}

/** Acquire after or during `close`. */
export class ClosedError extends HoldfastError {
  override readonly name = 'ClosedError';
  readonly code = 'CLOSED';

  constructor(message = 'This Locks is closed') {
    super(message);
  }
}
