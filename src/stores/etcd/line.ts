import { agree, fits, weightOf } from '../../store/grant-rule.ts';
import type { Mode } from '../../store/store.ts';
import type { KeyValue, RangeReply, RangeRequest } from './client.ts';
import type { ClaimKey, LockKeys } from './key.ts';

/** How many claims are read at once. With the longest names and notes, that fits into the four megabytes that a client takes. */
export const PAGE = 500;
/** Answers with more claims than this do not travel together: those of one transaction must fit as well. */
const SHORT = 16;
/** What they share as a conflict. */
export const LONG = 'long';

/** May the answer be long? */
export const isLong = ({ limit = 1 }: RangeRequest): boolean => limit > SHORT;

/** A claim of a line, as its key tells it. */
export interface Standing extends ClaimKey {
  readonly key: Buffer;
  readonly revision: bigint;
  readonly lease: string;
}

/** What stands ahead of a claim: enough of it to tell whether the claim is granted. */
export interface Ahead {
  /** In order, the first is nearest for modes that exclude each other, farthest for permits. */
  readonly claims: readonly Standing[];
  /** Keys of other programs' longer names hide what is behind them: look at the whole line. */
  readonly isUnclear: boolean;
  /** There is more to count. */
  readonly hasMore: boolean;
}

export type Verdict =
  | { readonly granted: true }
  /** `behind`: what has to go first; `null` when several can make room. */
  | { readonly granted: false; readonly behind: Buffer | null };

/**
 * What to read. Exclusive claims need only know who is right ahead of them, readers the last writer ahead of them; both are one key, however long the line is. Permits must be
 * counted, at most as many as there are.
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
  const after1 = after === 0n ? {} : { min_create_revision: String(after + 1n) };
  return { ...range, ...after1, sort_order: 'Ascend', limit: Math.min(mode.of + 1, PAGE) };
}

export function parseAhead(lock: LockKeys, mode: Mode, reply: RangeReply, own: Buffer): Ahead {
  const found = reply.kvs.filter((kv) => !kv.key.equals(own));
  const claims = found.flatMap((kv) => standing(lock, kv) ?? []);
  const isUnclear = mode.kind !== 'permits' && found.length > 0 && claims.length === 0;
  const hasMore = mode.kind === 'permits' && reply.kvs.length >= Math.min(mode.of + 1, PAGE);
  return { claims, isUnclear, hasMore };
}

export function standing(lock: LockKeys, kv: KeyValue): Standing | null {
  const parsed = lock.parse(kv.key, kv.create_revision);
  return parsed === null
    ? null
    : { ...parsed, key: kv.key, revision: BigInt(kv.create_revision), lease: kv.lease };
}

/** The mode of a claim ahead that one of this mode cannot stand beside. */
export function disagreement(mode: Mode, ahead: readonly Standing[]): Mode | null {
  const [present] = ahead;
  return present === undefined || agree(present.mode, mode) ? null : present.mode;
}

/** The grant rule on what is ahead. `null`: more must be read. */
export function judge(mode: Mode, ahead: Ahead, weightBefore: number): Verdict | number {
  if (mode.kind !== 'permits') {
    const [nearest] = ahead.claims;
    return nearest === undefined ? { granted: true } : { granted: false, behind: nearest.key };
  }
  let weight = weightBefore;
  for (const claim of ahead.claims) {
    // What disagrees is about to be told so and to leave; until then nothing fits beside it.
    weight += agree(claim.mode, mode) ? weightOf(claim.mode) : mode.of;
    if (!fits(weight, mode)) return { granted: false, behind: null };
  }
  return ahead.hasMore ? weight : { granted: true };
}

/** Judges a claim by the whole line in order. */
export function judgeWhole(mode: Mode, line: readonly Standing[], revision: bigint): Verdict {
  const before = line.filter((claim) => claim.revision < revision);
  const blocking = mode.kind === 'shared' ? before.filter((claim) => claim.mode.kind !== 'shared') : before;
  const claims = mode.kind === 'permits' ? blocking : blocking.reverse();
  const verdict = judge(mode, { claims, isUnclear: false, hasMore: false }, 0);
  return typeof verdict === 'number' ? { granted: true } : verdict;
}
