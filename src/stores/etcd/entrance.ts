import type { Clock } from '../../clock.ts';
import { LineFullError, ModeMismatchError, StoreError } from '../../errors.ts';
import { grantedCount } from '../../store/grant-rule.ts';
import type { ClaimRequest, Mode } from '../../store/store.ts';
import type { Claim } from './claim.ts';
import type { RangeReply } from './client.ts';
import { standTxn, tryTxn } from './entry-txn.ts';
import { unknownLease } from './lease.ts';
import { type Ahead, disagreement, isLong, LONG, lookAhead, parseAhead, type Verdict } from './line.ts';
import type { LineReader } from './line-reader.ts';
import type { Transactions, WriteResult } from './transactions.ts';

/**
 * `asked before`: the claim was there already, since the answer to an earlier request was lost; its `revision` is known now, unless it has gone meanwhile. `refused`: it is not in the line.
 */
export type Entry =
  | { readonly kind: 'entered'; readonly verdict: Verdict; readonly revision: bigint; readonly term: number }
  | { readonly kind: 'asked before' }
  | { readonly kind: 'refused' };

const NONE: RangeReply = { kvs: [], count: '0' };

/** Puts claims into lines. */
export class Entrance {
  readonly #transactions: Transactions;
  readonly #reader: LineReader;
  readonly #lineMax: number;
  readonly #clock: Clock;

  constructor(transactions: Transactions, reader: LineReader, lineMax: number, clock: Clock) {
    this.#clock = clock;
    this.#transactions = transactions;
    this.#reader = reader;
    this.#lineMax = lineMax;
  }

  /**
   * One transaction when the lock is free. `isRepeat`: an earlier request by this id may have done its work. Rejects with an unknown outcome only when the key may have been created and
   * may still be there.
   */
  async enter(claim: Claim, request: ClaimRequest, isRepeat: boolean): Promise<Entry> {
    const { mode, note, wait } = request;
    if (!wait && mode.kind !== 'permits') return await this.#try(claim, request, isRepeat);
    const result = await this.#transactions.write(standTxn(claim, note), conflicts(claim));
    claim.mayStand = true;
    if (mode.kind !== 'permits' && result.succeeded)
      return await this.#checkFence(claim, request, result, { granted: true });
    const [found = NONE, self = found, total = found] = result.ranges;
    claim.revision = revisionIn(self, claim.key) ?? (await this.#reader.revisionOf(claim.key));
    if (claim.revision !== result.revision) return { kind: 'asked before' };
    return await this.#stand(claim, request, result, found, Number(total.count));
  }

  async #try(claim: Claim, request: ClaimRequest, isRepeat: boolean): Promise<Entry> {
    const { mode, note } = request;
    const result = await this.#transactions.write(tryTxn(claim, note), conflicts(claim));
    claim.mayStand = result.succeeded || isRepeat || result.attempts !== 1;
    if (result.succeeded) return await this.#checkFence(claim, request, result, { granted: true });
    if (isRepeat || result.attempts !== 1) {
      claim.revision = await this.#reader.revisionOf(claim.key);
      if (claim.revision !== null) {
        claim.moveTo(unknownLease(this.#clock));
        return { kind: 'asked before' };
      }
    }
    const ahead = parseAhead(claim.lock, mode, result.ranges[0] ?? NONE, claim.key);
    // What was read does not show whether the lock is free: stand in line, and leave it again when it is not.
    if (ahead.isUnclear)
      return await this.enter(claim, { ...request, wait: true }, true).then((entry) =>
        this.#leave(claim, entry),
      );
    const present = await this.#disagreement(claim, ahead);
    if (present !== null) throw new ModeMismatchError(request.name, mode, present);
    return { kind: 'refused' };
  }

  async #leave(claim: Claim, entry: Entry): Promise<Entry> {
    if (entry.kind !== 'entered' || entry.verdict.granted) return entry;
    await this.withdraw(claim);
    return { kind: 'refused' };
  }

  async #stand(
    claim: Claim,
    request: ClaimRequest,
    result: WriteResult,
    found: RangeReply,
    total: number,
  ): Promise<Entry> {
    const ahead = parseAhead(claim.lock, request.mode, found, claim.key);
    const present = await this.#disagreement(claim, ahead);
    if (present !== null) {
      await this.withdraw(claim);
      throw new ModeMismatchError(request.name, request.mode, present);
    }
    const verdict = await this.#reader.judge(claim, result.revision, ahead);
    if (!verdict.granted && !request.wait) {
      await this.withdraw(claim);
      return { kind: 'refused' };
    }
    if (!verdict.granted) await this.#checkBound(claim, request, total);
    return await this.#checkFence(claim, request, result, verdict);
  }

  /**
   * The mode that the line has and the claim cannot stand beside: that of the first in it. What is right ahead may be another that does not belong there either, and is about to
   * leave; so where that disagrees, the line is read.
   */
  async #disagreement({ lock, mode, key }: Claim, ahead: Ahead): Promise<Mode | null> {
    const found = disagreement(mode, ahead.claims);
    if (found === null || mode.kind === 'permits') return found;
    const line = await this.#reader.whole(lock);
    return disagreement(
      mode,
      line.filter((each) => !each.key.equals(key)),
    );
  }

  /** Removes a claim that shall not stay. Rejects with an unknown outcome when it may have stayed. */
  async withdraw(claim: Claim): Promise<void> {
    try {
      await this.#reader.remove(claim.key, claim.revision);
    } catch (error) {
      throw new StoreError('A claim could not be taken back', { cause: error, applied: 'unknown' });
    }
    claim.mayStand = false;
  }

  async #checkBound(claim: Claim, request: ClaimRequest, total: number): Promise<void> {
    // One holds and this one has just entered: most lines are far from their bound, and need not be read to know it.
    if (total - 2 < this.#lineMax) return;
    // Who came later does not make the line full for this one: of several that come at once, as many stay as there is room for.
    const whole = await this.#reader.whole(claim.lock);
    const line = whole.filter(({ revision }) => revision <= (claim.revision ?? 0n));
    const waiting = line.length - grantedCount(line.map((each) => each.mode));
    if (waiting <= this.#lineMax) return;
    await this.withdraw(claim);
    throw new LineFullError(request.name, this.#lineMax);
  }

  /** A cluster that was rebuilt from nothing counts from the beginning: its fences would be below those that others have seen. */
  async #checkFence(
    claim: Claim,
    request: ClaimRequest,
    result: WriteResult,
    verdict: Verdict,
  ): Promise<Entry> {
    claim.revision = result.revision;
    if (result.revision > request.fenceAbove)
      return { kind: 'entered', verdict, revision: result.revision, term: result.term };
    await this.withdraw(claim);
    throw fenceTooLow(result.revision, request.fenceAbove);
  }
}

export function fenceTooLow(revision: bigint, fenceAbove: bigint): StoreError {
  return new StoreError(
    `etcd is at revision ${revision}, below fence ${fenceAbove} that was given before: has the cluster been rebuilt?`,
    { applied: 'no' },
  );
}

/** Two new claims of one lock must not get the same create revision. */
function conflicts({ keyText, lock, mode }: Claim): string[] {
  const own = [keyText, lock.from.toString('latin1')];
  return isLong(lookAhead(lock, mode, null)) ? [...own, LONG] : own;
}

function revisionIn(reply: RangeReply, key: Buffer): bigint | null {
  const kv = reply.kvs.find((each) => each.key.equals(key));
  return kv === undefined ? null : BigInt(kv.create_revision);
}
