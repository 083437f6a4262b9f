import type { Mode } from '../../store/store.ts';
import { judge } from '../shared/claim-order.ts';
import type { Claim } from './claim.ts';
import type { KeyValue, RangeReply, RangeRequest } from './client.ts';
import type { ClaimKey, LockKeys } from './key.ts';
import { PAGE } from './transactions.ts';

/** A claim in a queue, as read from its key. */
export interface QueueEntry extends ClaimKey {
  readonly key: Buffer;
  readonly revision: bigint;
  readonly modRevision: bigint;
  readonly lease: string;
}

/** What is ahead of a claim, as far as it was read. */
export interface Ahead {
  /** In queue order. */
  readonly claims: readonly QueueEntry[];
  /**
   * A claim that these do not block may be blocked by others: the answer was full, or had only keys
   * of another program's longer names.
   */
  readonly isPartial: boolean;
}

export type Verdict =
  | { readonly granted: true }
  /** `behind`: the key that has to go first; `null` when any of several can make room. */
  | { readonly granted: false; readonly behind: string | null };

/**
 * The range to read for a claim. An exclusive claim needs the nearest claim ahead, a shared claim
 * the nearest that is not shared: one key each, however long the queue is. For permits, claims are
 * counted, at most one more than there are permits.
 */
export function lookAhead(lock: LockKeys, mode: Mode, before: bigint | null): RangeRequest {
  const range = {
    key: lock.from,
    range_end: lock.blockingEnd(mode),
    sort_target: 'Create',
    keys_only: true,
    ...(before === null ? {} : { max_create_revision: String(before - 1n) }),
  } as const;
  if (mode.kind !== 'permits') return { ...range, sort_order: 'Descend', limit: 2 };
  return { ...range, sort_order: 'Ascend', limit: countMax(mode) };
}

/** The ranges of the claim's own key and of the claims ahead. */
export function lookRanges({ lock, mode, key }: Claim, revision: bigint): RangeRequest[] {
  return [{ key, keys_only: true }, lookAhead(lock, mode, revision)];
}

const countMax = ({ of }: { readonly of: number }): number => Math.min(of + 1, PAGE);

export function parseAhead(lock: LockKeys, mode: Mode, reply: RangeReply | undefined, own: Buffer): Ahead {
  const kvs = reply?.kvs ?? [];
  const found = kvs.filter((kv) => !kv.key.equals(own));
  const claims = found.flatMap((kv) => parseEntry(lock, kv) ?? []);
  if (mode.kind === 'permits') return { claims, isPartial: kvs.length >= countMax(mode) };
  return { claims: claims.reverse(), isPartial: found.length > 0 && claims.length === 0 };
}

export function parseEntry(lock: LockKeys, kv: KeyValue): QueueEntry | null {
  const parsed = lock.parse(kv.key, kv.create_revision);
  const [revision, modRevision] = [BigInt(kv.create_revision), BigInt(kv.mod_revision)];
  return parsed && { ...parsed, key: kv.key, revision, modRevision, lease: kv.lease };
}

/** Applies the grant rule to a claim of this mode behind these claims. */
export function judgeBehind(claims: readonly QueueEntry[], mode: Mode): Verdict {
  const verdict = judge([...claims, { mode }], claims.length);
  if (verdict.granted) return verdict;
  const behind = verdict.behind === null ? undefined : claims[verdict.behind];
  return { granted: false, behind: behind?.key.toString('latin1') ?? null };
}
