import { LineFullError, ModeMismatchError, StoreError } from '../../errors.ts';
import { grantedCount } from '../../store/grant-rule.ts';
import type { ClaimRequest } from '../../store/store.ts';
import type { Claim } from './claim.ts';
import type { RangeReply } from './client.ts';
import { disagreement, parseAhead, type Verdict } from './line.ts';
import { enterTxn, type LineReader, tryTxn } from './line-reader.ts';
import type { Transactions, WriteResult } from './transactions.ts';

/**
 * `asked before`: the claim was there already, since the answer to an earlier request was lost; its `revision` is known now. `refused`: it is not in the line.
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

  constructor(transactions: Transactions, reader: LineReader, lineMax: number) {
    this.#transactions = transactions;
    this.#reader = reader;
    this.#lineMax = lineMax;
  }

  /** One transaction when the lock is free. Rejects with an unknown outcome only when the key may have been created and may still be there. */
  async enter(claim: Claim, request: ClaimRequest): Promise<Entry> {
    if (request.wait || request.mode.kind === 'permits') return await this.#stand(claim, request);
    const result = await this.#transactions.write(
      tryTxn(claim, request.mode, request.note),
      conflicts(claim),
    );
    if (result.succeeded) return await this.#checkFence(claim, request, result, { granted: true });
    const [own = NONE, found = NONE] = result.ranges;
    if (this.#wasThere(claim, own)) return { kind: 'asked before' };
    const ahead = parseAhead(claim.lock, request.mode, found, claim.key);
    if (ahead.isUnclear) return await this.#stand(claim, request);
    const present = disagreement(request.mode, ahead.claims);
    if (present !== null) throw new ModeMismatchError(request.name, request.mode, present);
    return { kind: 'refused' };
  }

  async #stand(claim: Claim, request: ClaimRequest): Promise<Entry> {
    const result = await this.#transactions.write(
      enterTxn(claim, request.mode, request.note),
      conflicts(claim),
    );
    const [found = NONE, total = NONE] = result.ranges;
    if (!result.succeeded) {
      if (this.#wasThere(claim, found)) return { kind: 'asked before' };
      throw new StoreError('etcd gave an answer that makes no sense', { applied: 'unknown' });
    }
    claim.revision = result.revision;
    const ahead = parseAhead(claim.lock, request.mode, found, claim.key);
    const present = disagreement(request.mode, ahead.claims);
    if (present !== null) {
      await this.withdraw(claim);
      throw new ModeMismatchError(request.name, request.mode, present);
    }
    const verdict = await this.#reader.judge(claim, result.revision, ahead);
    if (!verdict.granted && !request.wait) {
      await this.withdraw(claim);
      return { kind: 'refused' };
    }
    if (!verdict.granted) await this.#checkBound(claim, request, Number(total.count));
    return await this.#checkFence(claim, request, result, verdict);
  }

  /** Removes a claim that shall not stay. Rejects with an unknown outcome when it may have stayed. */
  async withdraw(claim: Claim): Promise<void> {
    try {
      await this.#reader.remove(claim.key, claim.revision);
    } catch (error) {
      throw new StoreError('A claim could not be taken back', { cause: error, applied: 'unknown' });
    }
  }

  #wasThere(claim: Claim, own: RangeReply): boolean {
    const [kv] = own.kvs;
    if (kv === undefined) return false;
    claim.revision = BigInt(kv.create_revision);
    return true;
  }

  async #checkBound(claim: Claim, request: ClaimRequest, total: number): Promise<void> {
    // One holds and this one has just entered: most lines are far from their bound, and need not be read to know it.
    if (total - 2 < this.#lineMax) return;
    const line = await this.#reader.whole(claim.lock);
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
const conflicts = (claim: Claim): string[] => [claim.keyText, claim.lock.from.toString('latin1')];
