import type { ClaimRef } from '../../store/store.ts';
import type { Claim } from './claim.ts';
import type { KeyValue, RangeRequest } from './client.ts';
import type { LockKeys } from './key.ts';
import {
  type Ahead,
  judgeBehind,
  lookAhead,
  PAGE,
  parseAhead,
  parseEntry,
  type QueueEntry,
  type Verdict,
} from './queue.ts';
import type { ReadResult, Transactions, WriteResult } from './transactions.ts';

/** What one read shows about a claim and the claims ahead of it, all at one revision. */
export type Look =
  | { readonly isThere: false }
  | { readonly isThere: true; readonly verdict: Verdict; readonly revision: bigint; readonly term: number };

/** Reads queues, and removes claims from them. */
export class QueueReader {
  readonly #transactions: Transactions;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  /** Reads whether the claim exists, and whether it is granted. */
  async look(claim: Claim, revision: bigint): Promise<Look> {
    return await this.judgeRead(claim, revision, await this.#transactions.read(lookRanges(claim, revision)));
  }

  /** The same, from the answer to `lookRanges`. */
  async judgeRead(claim: Claim, revision: bigint, read: ReadResult): Promise<Look> {
    const [self, ahead] = read.ranges;
    const kv = self?.kvs[0];
    if (kv === undefined || BigInt(kv.create_revision) !== revision) return { isThere: false };
    claim.modRevision = BigInt(kv.mod_revision);
    const parsed = parseAhead(claim.lock, claim.mode, ahead, claim.key);
    const verdict = await this.judge(claim, revision, parsed);
    return { isThere: true, verdict, revision: read.revision, term: read.term };
  }

  /** Applies the grant rule. Reads more of the queue if the claims read so far do not decide. */
  async judge({ lock, mode, key }: Claim, revision: bigint, ahead: Ahead): Promise<Verdict> {
    if (ahead.isUnclear) {
      const whole = await this.whole(lock);
      return judgeBehind(
        whole.filter((entry) => entry.revision < revision),
        mode,
      );
    }
    let claims = ahead.claims;
    let verdict = judgeBehind(claims, mode);
    for (let page = ahead; verdict.granted && page.hasMore && page.claims.length > 0; ) {
      const after = page.claims.at(-1)?.revision ?? revision;
      const { ranges } = await this.#transactions.read([lookAhead(lock, mode, revision, after)]);
      page = parseAhead(lock, mode, ranges[0], key);
      claims = [...claims, ...page.claims];
      verdict = judgeBehind(claims, mode);
    }
    return verdict;
  }

  /** Reads the whole queue, in order. */
  async whole(lock: LockKeys): Promise<QueueEntry[]> {
    return (await this.values(lock, true)).flatMap((kv) => parseEntry(lock, kv) ?? []);
  }

  /** Reads page by page, so that answers fit. No claim enters ahead of those that were read. */
  async values(lock: LockKeys, keysOnly: boolean): Promise<readonly KeyValue[]> {
    const found = new Map<string, KeyValue>();
    for (let from = 0n; ; ) {
      const { ranges } = await this.#transactions.read([wholeQueue(lock, keysOnly, from)]);
      const kvs = ranges[0]?.kvs ?? [];
      const before = found.size;
      for (const kv of kvs) {
        const key = kv.key.toString('latin1');
        // A key that was deleted and created again between two pages has its new position.
        found.delete(key);
        found.set(key, kv);
      }
      const last = kvs.at(-1);
      if (last === undefined || kvs.length < PAGE || found.size === before) return [...found.values()];
      // Another program may have created several keys at one revision, so the last revision of a
      // page is read again.
      from = BigInt(last.create_revision);
    }
  }

  /** Sends a transaction, and resolves to its term. */
  async term({ key }: Claim): Promise<number> {
    return (await this.#transactions.read([{ key, count_only: true }])).term;
  }

  async find(lock: LockKeys, ref: ClaimRef): Promise<QueueEntry | null> {
    return (await this.whole(lock)).find((claim) => claim.id === ref.id) ?? null;
  }

  /** Deletes a key if it was created at that revision; `null`: at any revision. */
  async remove(key: Buffer, revision: bigint | null): Promise<WriteResult> {
    const compare =
      revision === null
        ? ({ target: 'Create', result: 'Greater', key, create_revision: '0' } as const)
        : ({ target: 'Create', result: 'Equal', key, create_revision: String(revision) } as const);
    const txn = { compare: [compare], success: [{ request_delete_range: { key } }], failure: [] };
    return await this.#transactions.writes.add({ txn, conflicts: [key.toString('latin1')] });
  }
}

/** The ranges of the claim's own key and of the claims ahead. */
export function lookRanges({ lock, mode, key }: Claim, revision: bigint): RangeRequest[] {
  return [{ key, keys_only: true }, lookAhead(lock, mode, revision)];
}

function wholeQueue({ from: key, end: range_end }: LockKeys, keysOnly: boolean, from: bigint): RangeRequest {
  return {
    key,
    range_end,
    sort_target: 'Create',
    sort_order: 'Ascend',
    keys_only: keysOnly,
    limit: PAGE,
    ...(from === 0n ? {} : { min_create_revision: String(from) }),
  };
}
