import { agree } from '../../store/grant-rule.ts';
import type { Mode } from '../../store/store.ts';
import { judge } from '../shared/claim-order.ts';
import type { KeyValue, RangeReply, RangeRequest } from './client.ts';
import type { ClaimKey, LockKeys } from './key.ts';

/** How many claims are read at once. With the longest names and notes they fit into 4 MB. */
export const PAGE = 500;
/** Longer answers do not share a transaction, because its whole answer must fit too. */
const SHORT = 16;
/** The conflict key of reads with a long answer. */
export const LONG = 'long';

/** Whether the answer may be long. */
export const isLong = ({ limit = 1 }: RangeRequest): boolean => limit > SHORT;

/** A claim in a queue, as read from its key. */
export interface QueueEntry extends ClaimKey {
  readonly key: Buffer;
  readonly revision: bigint;
  readonly lease: string;
}

/** Enough of what is ahead of a claim to tell whether it is granted. */
export interface Ahead {
  /** In queue order. */
  readonly claims: readonly QueueEntry[];
  /** Only keys of another program's longer names were found, so the whole queue has to be read. */
  readonly isUnclear: boolean;
  /** There may be more claims to count. */
  readonly hasMore: boolean;
}

export type Verdict =
  | { readonly granted: true }
  /** `behind`: the key that has to go first; `null` when any of several can make room. */
  | { readonly granted: false; readonly behind: Buffer | null };

/**
 * The range to read for a claim. An exclusive claim needs the nearest claim ahead, a shared claim
 * the nearest that is not shared: one key each, however long the queue is. For permits, claims are
 * counted, at most one more than there are permits.
 */
export function lookAhead(lock: LockKeys, mode: Mode, before: bigint | null, after = 0n): RangeRequest {
  const range = {
    key: lock.from,
    range_end: lock.blockingEnd(mode),
    sort_target: 'Create',
    keys_only: true,
    ...(before === null ? {} : { max_create_revision: String(before - 1n) }),
  } as const;
  if (mode.kind !== 'permits') return { ...range, sort_order: 'Descend', limit: 2 };
  const from = after === 0n ? {} : { min_create_revision: String(after + 1n) };
  return { ...range, ...from, sort_order: 'Ascend', limit: countMax(mode) };
}

const countMax = ({ of }: { readonly of: number }): number => Math.min(of + 1, PAGE);

export function parseAhead(lock: LockKeys, mode: Mode, reply: RangeReply | undefined, own: Buffer): Ahead {
  const kvs = reply?.kvs ?? [];
  const found = kvs.filter((kv) => !kv.key.equals(own));
  const claims = found.flatMap((kv) => parseEntry(lock, kv) ?? []);
  if (mode.kind === 'permits') return { claims, isUnclear: false, hasMore: kvs.length >= countMax(mode) };
  return { claims: claims.reverse(), isUnclear: found.length > 0 && claims.length === 0, hasMore: false };
}

export function parseEntry(lock: LockKeys, kv: KeyValue): QueueEntry | null {
  const parsed = lock.parse(kv.key, kv.create_revision);
  return parsed && { ...parsed, key: kv.key, revision: BigInt(kv.create_revision), lease: kv.lease };
}

/** Whether one of the claims has a mode that cannot share a queue with this mode. */
export function hasIncompatible(claims: readonly QueueEntry[], mode: Mode): boolean {
  return claims.some((claim) => !agree(claim.mode, mode));
}

/** Applies the grant rule to a claim of this mode behind these claims. */
export function judgeBehind(claims: readonly QueueEntry[], mode: Mode): Verdict {
  const verdict = judge([...claims, { mode }], claims.length);
  if (verdict.granted) return verdict;
  return { granted: false, behind: verdict.behind === null ? null : (claims[verdict.behind]?.key ?? null) };
}
