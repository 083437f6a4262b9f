/**
 * The JSON of the dashboard. Instants are milliseconds since 1970 by the clock of the process that
 * serves the dashboard: `takenAtMs` is "now" there, so a reader needs no clock of its own. Fences are
 * decimal text. `null`: the store does not know. This file imports nothing, so that a page can use it.
 */

/** A hold that is older than this is long held. */
export const LONG_HELD_MS = 300_000;
/** A hold with less than this share of its lease left is about to expire: renewals keep it above. */
export const EXPIRING_SHARE = 0.5;

/** What the caller may do. */
export type Role = 'operate' | 'read';
/** What a name is used for. */
export type LockUse = 'lock' | 'once' | 'rateLimit' | 'schedule';
/** What the claims of a lock weigh. */
export type LockKind = 'exclusive' | 'shared' | 'permits';
/** `expiring`: less than half of the lease is left, so renewals have failed or there are none. */
export type LockState = 'contended' | 'long-held' | 'expiring';
/** `age`: the shortest held first. `expiry`: the soonest end of a lease first. */
export type LockSort = 'name' | 'waiters' | 'holders' | 'age' | 'expiry';

/** Plain JSON. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [key: string]: Json };

/** One claim: a hold or a queue position. */
export interface ClaimSummary {
  readonly id: string;
  readonly owner: string | null;
  /** `null` while the claim waits. */
  readonly fence: string | null;
  readonly kind: LockKind;
  /** How many permits the claim asks for; `null` for the other kinds. */
  readonly permits: number | null;
  /** `null` while the claim waits. */
  readonly heldSinceMs: number | null;
  /** When the lease or the queue position ends without a renewal. */
  readonly expiresAtMs: number | null;
  /** The longest remaining time that was seen of this claim: the length of a full lease bar. */
  readonly leaseMs: number | null;
  readonly metadata: { readonly [key: string]: Json } | null;
  /** The metadata is too long for a list. `GET /api/lock` has it. */
  readonly isMetadataLeftOut: boolean;
}

/** One lock in a list. */
export interface LockSummary {
  readonly name: string;
  readonly use: LockUse;
  readonly kind: LockKind | null;
  /** The capacity of a semaphore or a rate limit. */
  readonly permits: number | null;
  /** A remembered finished `once`, or latest slot of a schedule. */
  readonly done: boolean;
  /** How many claims hold the lock. */
  readonly holderCount: number;
  /** How many claims wait for it. */
  readonly waiterCount: number;
  /** At most 3: the first holders, and always the one whose lease ends first. */
  readonly holders: readonly ClaimSummary[];
  /** The oldest hold. */
  readonly heldSinceMs: number | null;
  /** The soonest end of a hold's lease. */
  readonly expiresAtMs: number | null;
}

/** `GET /api/locks?prefix=&use=&kind=&state=&sort=&order=&limit=&cursor=` */
export interface LockList {
  readonly takenAtMs: number;
  /** How many locks match, of those that were read. */
  readonly total: number;
  /** The store has more locks than the dashboard reads. */
  readonly isTruncated: boolean;
  readonly locks: readonly LockSummary[];
  /** The `cursor` of the next page; `null` on the last. */
  readonly next: string | null;
}

/** Who held or waited from when to when, as far as samples show. */
export interface TimelineSpan {
  readonly id: string;
  readonly owner: string | null;
  readonly state: 'held' | 'waiting';
  readonly fence: string | null;
  readonly fromMs: number;
  /** The first sample that no longer showed it; the latest one that did while it is open, or before a gap. */
  readonly toMs: number;
  /** The latest sample still shows it. */
  readonly isOpen: boolean;
}

/** Samples of one lock, taken while a viewer watched. Anything shorter than the interval may be missing. */
export interface Timeline {
  /** The first sample; `null` when there is none. */
  readonly fromMs: number | null;
  readonly toMs: number | null;
  /** How often a sample was taken at best. */
  readonly intervalMs: number;
  /** Of each sample only the holders and the first waiters are kept, 50 claims in all. */
  readonly claimsMax: number;
  /** When no samples were taken: nobody watched, or the store failed. */
  readonly gaps: readonly { readonly fromMs: number; readonly toMs: number }[];
  readonly spans: readonly TimelineSpan[];
  readonly queue: readonly { readonly atMs: number; readonly holders: number; readonly waiters: number }[];
}

/** Durations of this process's own calls. `counts` has one more entry than `boundsMs`: the rest. */
export interface DurationHistogram {
  readonly boundsMs: readonly number[];
  readonly counts: readonly number[];
  readonly count: number;
  readonly sumMs: number;
}

/** `GET /api/lock?name=&use=&waiterOffset=&waiterLimit=` */
export interface LockDetail {
  readonly takenAtMs: number;
  readonly lock: LockSummary;
  /** All holders, at most 1,000. */
  readonly holders: readonly ClaimSummary[];
  /** The waiters from `waiterOffset` on, in queue order. */
  readonly waiters: readonly ClaimSummary[];
  readonly waiterOffset: number;
  readonly timeline: Timeline;
  /** Since the dashboard was created, for calls of this process only; `null` without such calls. */
  readonly waits: DurationHistogram | null;
  readonly holds: DurationHistogram | null;
}

/** Server-sent event `snapshot` of `GET /api/events`: the whole list, in parts of up to 500 locks. */
export interface SnapshotEvent {
  readonly takenAtMs: number;
  /** When the next scan is expected. */
  readonly intervalMs: number;
  readonly total: number;
  readonly isTruncated: boolean;
  /** Part 0 replaces everything that was known. */
  readonly part: number;
  readonly parts: number;
  readonly locks: readonly LockSummary[];
}

/** Server-sent event `delta`: what has changed. Also sent now and then without a change. */
export interface DeltaEvent {
  readonly takenAtMs: number;
  readonly intervalMs: number;
  readonly total: number;
  readonly isTruncated: boolean;
  readonly changed: readonly LockSummary[];
  readonly removed: readonly { readonly name: string; readonly use: LockUse }[];
}

/** Server-sent event `failed`: the store could not be read. The next scan is still made. */
export interface FailedEvent {
  readonly atMs: number;
  /** When the next scan is expected. */
  readonly intervalMs: number;
  /** `STORE`, `QUORUM`, `CLOSED`, `UNSUPPORTED`. */
  readonly code: string;
}

/** `GET /api/schedules` */
export interface ScheduleList {
  readonly takenAtMs: number;
  readonly isTruncated: boolean;
  readonly schedules: readonly ScheduleSummary[];
}
/** One schedule. */
export interface ScheduleSummary {
  readonly name: string;
  /** The run in progress. */
  readonly running: ClaimSummary | null;
  /** The slot of the run in progress; `null` for an extra run. */
  readonly runningSlotMs: number | null;
  /** The latest slot that the store remembers, and whether its run has ended. */
  readonly lastSlotMs: number | null;
  readonly isLastDone: boolean | null;
  /** Whether this process has the schedule, and so knows its next slot. */
  readonly isKnownHere: boolean;
  readonly nextSlotMs: number | null;
}

/** `GET /api/leaders`: the elections that have a candidate, in this process or in another. */
export interface LeaderList {
  readonly takenAtMs: number;
  /** There are more elections, or more locks than the dashboard reads. */
  readonly isTruncated: boolean;
  readonly leaders: readonly LeaderSummary[];
}
/** One election. */
export interface LeaderSummary {
  readonly name: string;
  readonly leader: ClaimSummary | null;
  /** The leader and the waiting candidates, as far as the store knows. */
  readonly candidateCount: number;
  /** The leader is a candidate of this process. */
  readonly isHere: boolean;
}

/** `POST /api/evict`. JSON, at most 64 KiB, by a caller of the role `operate`. */
export interface EvictRequest {
  readonly name: string;
  readonly use?: LockUse;
  /** The claim. */
  readonly id: string;
  /** The claim's fence as it was shown; `null` for a waiter. Another fence now: `changed`. */
  readonly fence: string | null;
  /** The lock's name, as the operator has typed it. */
  readonly confirm: string;
}
/**
 * `evicted`: this call took the claim away. `gone`: the claim was not there any more. `changed`: the
 * claim waited when it was shown, and holds the lock now; it was left alone. `unsupported`:
 * the store cannot take this claim away, since it is another program's; nothing was done. `failed`: the
 * store did not answer; the claim may or may not be gone.
 */
export type EvictOutcome = 'evicted' | 'gone' | 'changed' | 'unsupported' | 'failed';
/** Status 200 when evicted, 409 when gone or changed, 501 when unsupported, 503 when failed. */
export interface EvictAnswer {
  readonly outcome: EvictOutcome;
  /** The holders now, at most 3; `null` when they are not known. */
  readonly holders: readonly ClaimSummary[] | null;
}

/** `GET /api/audit`: what was evicted through this dashboard, newest first, at most 200. */
export interface AuditList {
  readonly entries: readonly AuditEntry[];
}
/** One attempt to evict a claim. */
export interface AuditEntry {
  readonly atMs: number;
  /** As `access` names the caller. */
  readonly who: string | null;
  readonly name: string;
  readonly use: LockUse;
  readonly id: string;
  readonly fence: string | null;
  /** The owner of the claim; `null` when it was gone. */
  readonly owner: string | null;
  readonly outcome: EvictOutcome;
}

/** `GET /api/session` */
export interface SessionInfo {
  readonly role: Role;
  readonly who: string | null;
  /** The kind of store: `redis`, `postgres` and so on. */
  readonly store: string;
  /** The store grants in the order of the queue: first come, first served. */
  readonly isOrdered: boolean;
  /** The store can list only the locks that the serving process itself holds. */
  readonly listsOnlyOwn: boolean;
  /** The owner of the Locks that serves the dashboard. */
  readonly owner: string;
  readonly version: string;
}

/** Every answer with a status of 400 or more, but those of `POST /api/evict`. */
export interface ApiError {
  /** `forbidden`, `host`, `origin`, `not-found`, `method`, `bad-request`, `too-large`, `busy`, `store`, … */
  readonly error: string;
  readonly message: string;
}
