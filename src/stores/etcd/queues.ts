import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import { agree } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';
import { checkCompatible, checkFence, isOverBound, judge } from '../shared/claim-order.ts';
import { type Calls, PAGE_KEYS, type TxnResult, type Write } from './calls.ts';
import type { Claim } from './claim.ts';
import type { Compare, KeyValue, RangeReply, RangeRequest, RequestOp, TxnRequest } from './client.ts';
import { isLeaseGone } from './failure.ts';
import type { ClaimKey, LockKeys } from './key.ts';
import { type Lease, unknownLease } from './lease.ts';

/** A claim in a queue, as read from its key. */
export interface QueueEntry extends ClaimKey {
  readonly key: Buffer;
  readonly revision: bigint;
  readonly modRevision: bigint;
  readonly lease: string;
  readonly note: string;
}

/** What is ahead of a claim, as far as it was read. */
interface Ahead {
  /** In queue order. */
  readonly claims: readonly QueueEntry[];
  /**
   * A claim that these do not block may be blocked by others: the answer was full, or had only keys
   * of another program's longer names.
   */
  readonly isPartial: boolean;
}

export type Standing =
  | { readonly granted: true }
  /** `behind`: the key that has to go first; `null` when any of several can make room. */
  | { readonly granted: false; readonly behind: string | null };

/** What one read shows about a claim, all at one revision. */
export interface Look {
  readonly standing: Standing;
  readonly revision: bigint;
  readonly term: number;
}

/**
 * `existed`: the key existed already, because the answer to an earlier request was lost. `refused`:
 * the claim is not in the queue. Otherwise the claim has entered the queue, at `revision`.
 */
export type Enqueued = 'existed' | 'refused' | Look;

/** Reads queues, puts claims into them and removes them. */
export class Queues {
  readonly #calls: Calls;
  readonly #queueMax: number;

  constructor(calls: Calls, queueMax: number) {
    this.#calls = calls;
    this.#queueMax = queueMax;
  }

  /**
   * Puts a new claim into the queue, with one transaction if the lock is free. A claim that does not
   * wait only reads if it is not. After an unknown outcome the key may exist. Otherwise it exists
   * if the claim has a revision.
   */
  async enter(
    claim: Claim,
    request: ClaimRequest,
    signal: AbortSignal | undefined,
    enters = request.wait || request.mode.kind === 'permits',
  ): Promise<Enqueued> {
    const { lock, mode } = claim;
    const txn = enqueueTxn(claim, request.note, enters);
    const result = await this.#calls.writes.add({ txn, conflict: lock.from, signal });
    if (mode.kind !== 'permits' && result.succeeded) {
      claim.revision = result.revision;
      claim.modRevision = result.revision;
      return await this.#checkFence(claim, request, { ...result, standing: { granted: true } });
    }
    const [own, reply, total] = result.ranges;
    const isOwnLease = this.#see(claim, own);
    const isNew = enters && isOwnLease && claim.revision === result.revision;
    if (enters ? !isNew : claim.revision !== 0n) return 'existed';
    const ahead = parseAhead(claim, reply);
    // The keys that were read do not show whether the lock is free. In the queue the claim can be
    // judged, and it is withdrawn again if the lock is held.
    if (!enters && ahead.isPartial) return await this.enter(claim, request, signal, true);
    const present = await this.#incompatible(claim, ahead);
    if (present !== null)
      return await this.#refuse(claim, new ModeMismatchError(request.name, mode, present));
    if (!enters) return 'refused';
    const standing = await this.#judge(claim, ahead);
    if (!standing.granted && !request.wait) return await this.#refuse(claim);
    if (!standing.granted && (await this.#isQueueFull(claim, Number(total?.count ?? 0))))
      return await this.#refuse(claim, new QueueFullError(request.name, this.#queueMax));
    return await this.#checkFence(claim, request, { ...result, standing });
  }

  /** Reads the claim's own key. False: an earlier request has created it, on another lease. */
  #see(claim: Claim, own: RangeReply | undefined): boolean {
    const kv = own?.kvs[0];
    claim.revision = BigInt(kv?.create_revision ?? 0);
    claim.modRevision = BigInt(kv?.mod_revision ?? 0);
    if (kv === undefined || kv.lease === claim.lease.id) return true;
    claim.moveTo(unknownLease());
    return false;
  }

  /**
   * The mode that the claim is incompatible with; `null` if it is compatible. The first claim in
   * the queue decides. An incompatible claim right ahead may be one that is about to be refused
   * itself, so the whole queue is read in that case.
   */
  async #incompatible(claim: Claim, { claims }: Ahead): Promise<Mode | null> {
    const { mode } = claim;
    if (claims.every((each) => agree(each.mode, mode))) return null;
    const queue = mode.kind === 'permits' ? claims : await this.#wholeAhead(claim);
    return checkCompatible([...queue, { mode }], queue.length);
  }

  async #isQueueFull({ lock, revision }: Claim, total: number): Promise<boolean> {
    // At least one claim holds, and this one has just entered. Most queues need not be read.
    if (total - 2 < this.#queueMax) return false;
    const queue = (await this.whole(lock)).filter((each) => each.revision <= revision);
    return isOverBound(queue, queue.length - 1, this.#queueMax);
  }

  async #checkFence(claim: Claim, { fenceAbove }: ClaimRequest, look: Look): Promise<Enqueued> {
    const tooLow = checkFence(look.revision, fenceAbove, 'The etcd revision');
    return tooLow === null ? look : await this.#refuse(claim, tooLow);
  }

  async #refuse(claim: Claim, error?: Error): Promise<'refused'> {
    if (claim.revision !== 0n) await this.withdraw(claim);
    if (error !== undefined) throw error;
    return 'refused';
  }

  /** Deletes a claim that must not stay. After an unknown outcome the claim may still exist. */
  async withdraw(claim: Claim): Promise<void> {
    try {
      await this.#calls.writes.add(removal(claim.key, claim.revision));
    } catch (error) {
      throw new StoreError('A claim could not be withdrawn', { cause: error, applied: 'unknown' });
    }
    claim.revision = 0n;
  }

  /** Checks whether an exclusive claim is granted. If so, moves the claim to this lease. */
  async take(claim: Claim, lease: Lease): Promise<Look | null> {
    claim.addLease(lease);
    try {
      const txn = takeTxn(claim, lease.id);
      const taken = await this.#calls.writes.add({ txn, conflict: claim.key });
      if (taken.succeeded) {
        claim.moveTo(lease);
        claim.modRevision = taken.revision;
        return { ...taken, standing: { granted: true } };
      }
      // The client may have sent it twice, and the first attempt may have moved the key.
      if (taken.ranges[0]?.kvs[0]?.lease !== lease.id) claim.leave(lease);
      return await this.#judgeRead(claim, taken);
    } catch (error) {
      // Without an answer the key may be on either lease. `LeasePool.extend` finds out which.
      if (!isLeaseGone(error)) throw error;
      lease.end();
      return await this.look(claim);
    }
  }

  /** Reads whether the claim is granted; `null` when it does not exist. */
  async look(claim: Claim): Promise<Look | null> {
    return await this.#judgeRead(claim, await this.#calls.reads.add({ ranges: lookRanges(claim) }));
  }

  /** `read`: the answer to `lookRanges`. */
  async #judgeRead(claim: Claim, read: TxnResult): Promise<Look | null> {
    const [own, ahead] = read.ranges;
    const kv = own?.kvs[0];
    if (kv === undefined || BigInt(kv.create_revision) !== claim.revision) return null;
    claim.modRevision = BigInt(kv.mod_revision);
    return { ...read, standing: await this.#judge(claim, parseAhead(claim, ahead)) };
  }

  /** Applies the grant rule. Reads the whole queue if the claims read so far do not decide. */
  async #judge(claim: Claim, { claims, isPartial }: Ahead): Promise<Standing> {
    const standing = judgeBehind(claims, claim.mode);
    if (!standing.granted || !isPartial) return standing;
    return judgeBehind(await this.#wholeAhead(claim), claim.mode);
  }

  async #wholeAhead({ lock, revision }: Claim): Promise<QueueEntry[]> {
    const queue = await this.whole(lock);
    return queue.filter((entry) => revision === 0n || entry.revision < revision);
  }

  /**
   * Reads the whole queue, in order. No claim enters ahead of one that was in the queue before, so
   * all that is ahead of such a claim is read.
   */
  async whole(lock: LockKeys, keysOnly = true): Promise<QueueEntry[]> {
    const queue: QueueEntry[] = [];
    for await (const kv of this.#calls.keys(lock.from, lock.end, keysOnly)) {
      const entry = parseEntry(lock, kv);
      if (entry !== null) queue.push(entry);
    }
    return queue.sort((a, b) => Number(a.revision - b.revision));
  }

  /** Finds a claim by its id, and whether it is granted. */
  async find(lock: LockKeys, id: string): Promise<(QueueEntry & { readonly isGranted: boolean }) | null> {
    const queue = await this.whole(lock);
    const at = queue.findIndex((each) => each.id === id);
    const found = queue[at];
    if (found === undefined) return null;
    return { ...found, isGranted: judgeBehind(queue.slice(0, at), found.mode).granted };
  }

  /** Deletes a key if it was created at that revision; 0: at any. False: there was no such key. */
  async remove({ key, revision }: Pick<Claim, 'key' | 'revision'>): Promise<boolean> {
    const { succeeded, attempts } = await this.#calls.writes.add(removal(key, revision));
    // The client has sent the deletion more than once, and an earlier attempt may have succeeded.
    if (!succeeded && attempts !== 1)
      throw new StoreError('The answer to a release was lost', { applied: 'unknown' });
    return succeeded;
  }
}

function removal(key: Buffer, revision: bigint): Write {
  const result = revision === 0n ? 'Greater' : 'Equal';
  const compare = { target: 'Create', result, key, create_revision: String(revision) } as const;
  const txn = { compare: [compare], success: [{ request_delete_range: { key } }], failure: [] };
  return { txn, conflict: key };
}

/** The ranges of the claim's own key and of the claims ahead: of all, before it has entered. */
function lookRanges({ lock, mode, key, revision }: Claim): RangeRequest[] {
  const ahead = {
    key: lock.from,
    range_end: lock.blockingEnd(mode),
    sort_target: 'Create',
    keys_only: true,
    ...(revision === 0n ? {} : { max_create_revision: String(revision - 1n) }),
  } as const;
  const own = { key, keys_only: true };
  // For permits, claims are counted, at most one more than there are permits.
  if (mode.kind === 'permits') return [own, { ...ahead, sort_order: 'Ascend', limit: countMax(mode) }];
  // An exclusive claim needs the nearest claim ahead, a shared claim the nearest that is not
  // shared. The second key is needed while the nearest is the claim's own.
  return [own, { ...ahead, sort_order: 'Descend', limit: 2 }];
}

const countMax = ({ of }: { readonly of: number }): number => Math.min(of + 1, PAGE_KEYS);

/** `reply`: to the second of `lookRanges`. */
function parseAhead({ lock, mode, key }: Claim, reply: RangeReply | undefined): Ahead {
  const kvs = reply?.kvs ?? [];
  const found = kvs.filter((kv) => !kv.key.equals(key));
  const claims = found.flatMap((kv) => parseEntry(lock, kv) ?? []);
  if (mode.kind === 'permits') return { claims, isPartial: kvs.length >= countMax(mode) };
  return { claims: claims.reverse(), isPartial: found.length > 0 && claims.length === 0 };
}

/** `null`: the key belongs to another lock. */
function parseEntry(lock: LockKeys, kv: KeyValue): QueueEntry | null {
  const parsed = lock.parse(kv.key, kv.create_revision);
  if (parsed === null) return null;
  const [revision, modRevision] = [BigInt(kv.create_revision), BigInt(kv.mod_revision)];
  return { ...parsed, key: kv.key, revision, modRevision, lease: kv.lease, note: kv.value.toString() };
}

/** Applies the grant rule to a claim of this mode behind these claims. */
function judgeBehind(claims: readonly QueueEntry[], mode: Mode): Standing {
  const standing = judge([...claims, { mode }], claims.length);
  if (standing.granted) return standing;
  const behind = standing.behind === null ? undefined : claims[standing.behind];
  return { granted: false, behind: behind?.key.toString('latin1') ?? null };
}

/**
 * Takes the lock if it is free, which costs least: one comparison and one put. Otherwise reads
 * `lookRanges` and, if the claim `enters`, puts it into the queue and counts the queue. For permits
 * claims must be counted, so they always enter. The transaction may be sent twice, because a key
 * that exists is not put again: a second put that arrives late would move a hold back to the lease
 * with which the claim entered.
 */
function enqueueTxn(claim: Claim, note: string, enters: boolean): TxnRequest {
  const { lock, mode, key, lease } = claim;
  const put: RequestOp = { request_put: { key, value: Buffer.from(note), lease: lease.id } };
  const reads = lookRanges(claim).map((range) => ({ request_range: range }));
  const enqueue: RequestOp[] = [
    { request_txn: { compare: [isAbsent(key)], success: [put], failure: [] } },
    ...reads,
    { request_range: { key: lock.from, range_end: lock.end, count_only: true } },
  ];
  return mode.kind === 'permits'
    ? { compare: [], success: enqueue, failure: [] }
    : { compare: isFree(claim), success: [put], failure: enters ? enqueue : reads };
}

/**
 * Moves an exclusive claim to the lease of a hold if nothing is ahead of it; otherwise reads
 * `lookRanges`. So one round trip shows that the claim is granted and gives it the time of a hold.
 */
function takeTxn(claim: Claim, leaseId: string): TxnRequest {
  const { key, lock, revision } = claim;
  const isFirst: Compare = {
    target: 'Create',
    result: 'Greater',
    key: lock.from,
    range_end: lock.end,
    create_revision: String(revision - 1n),
  };
  return {
    compare: [...isUnchanged(claim), isFirst],
    success: [{ request_put: { key, lease: leaseId, ignore_value: true } }],
    failure: lookRanges(claim).map((range) => ({ request_range: range })),
  };
}

/** True when the range has no key: the create revision of a missing key is 0. */
function isFree({ lock, mode, key }: Claim): Compare[] {
  const noKey: Compare = { ...isAbsent(lock.from), range_end: lock.blockingEnd(mode) };
  // The range that blocks a shared claim does not include its own key. If that key exists, an
  // earlier request has created it.
  return mode.kind === 'shared' ? [noKey, isAbsent(key)] : [noKey];
}

/**
 * True when nothing has written to the key since. A request that arrives late then cannot move the
 * claim back to a lease that it has left.
 */
export function isUnchanged({ key, revision, modRevision }: Claim): Compare[] {
  return [
    { target: 'Create', result: 'Equal', key, create_revision: String(revision) },
    { target: 'Mod', result: 'Equal', key, mod_revision: String(modRevision) },
  ];
}

function isAbsent(key: Buffer): Compare {
  return { target: 'Create', result: 'Equal', key, create_revision: '0' };
}
