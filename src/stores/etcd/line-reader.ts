import type { ClaimRef } from '../../store/store.ts';
import type { Claim } from './claim.ts';
import type { KeyValue, RangeRequest } from './client.ts';
import type { LockKeys } from './key.ts';
import {
  type Ahead,
  judge,
  judgeWhole,
  lookAhead,
  PAGE,
  parseAhead,
  type Standing,
  standing,
  type Verdict,
} from './line.ts';
import type { Transactions, WriteResult } from './transactions.ts';

/** What was found of a claim and of what is ahead of it, all at one revision. */
export type Look =
  | { readonly isThere: false }
  | { readonly isThere: true; readonly verdict: Verdict; readonly revision: bigint; readonly term: number };

/** Reads lines, and removes claims from them. */
export class LineReader {
  readonly #transactions: Transactions;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  /** Is the claim there, and is it granted? A claim whose lease ran out in line is not there, whoever is ahead. */
  async look(claim: Claim, revision: bigint): Promise<Look> {
    const { lock, mode, key } = claim;
    const own = { key, keys_only: true };
    const read = await this.#transactions.read([own, lookAhead(lock, mode, revision)]);
    const [self, ahead] = read.ranges;
    const kv = self?.kvs[0];
    if (kv === undefined || BigInt(kv.create_revision) !== revision) return { isThere: false };
    const parsed = parseAhead(lock, mode, ahead ?? { kvs: [], count: '0' }, key);
    const verdict = await this.judge(claim, revision, parsed);
    return { isThere: true, verdict, revision: read.revision, term: read.term };
  }

  /** Applies the grant rule to what was read ahead of a claim, and reads on where that is not enough. */
  async judge(claim: Claim, revision: bigint, ahead: Ahead): Promise<Verdict> {
    const { lock, mode, key } = claim;
    if (ahead.isUnclear) return judgeWhole(mode, await this.whole(lock), revision);
    let page = ahead;
    let verdict = judge(mode, page, 0);
    while (typeof verdict === 'number') {
      const after = page.claims.at(-1)?.revision ?? revision;
      const { ranges } = await this.#transactions.read([lookAhead(lock, mode, revision, after)]);
      page = parseAhead(lock, mode, ranges[0] ?? { kvs: [], count: '0' }, key);
      verdict = page.claims.length === 0 ? { granted: true } : judge(mode, page, verdict);
    }
    return verdict;
  }

  /** The whole line in order. */
  async whole(lock: LockKeys): Promise<Standing[]> {
    return (await this.values(lock, true)).flatMap((kv) => standing(lock, kv) ?? []);
  }

  /** Page by page, so that the answers fit. Nothing comes in ahead of what was read, so the line is not older than its first page. */
  async values(lock: LockKeys, keysOnly: boolean): Promise<readonly KeyValue[]> {
    const found = new Map<string, KeyValue>();
    for (let from = 0n; ; ) {
      const { ranges } = await this.#transactions.read([wholeLine(lock, keysOnly, from)]);
      const kvs = ranges[0]?.kvs ?? [];
      const before = found.size;
      for (const kv of kvs) {
        const key = kv.key.toString('latin1');
        // Removed and made anew meanwhile, it stands where it is now.
        found.delete(key);
        found.set(key, kv);
      }
      const last = kvs.at(-1);
      if (last === undefined || kvs.length < PAGE || found.size === before) return [...found.values()];
      // Other programs may have made several at one revision: it is read again.
      from = BigInt(last.create_revision);
    }
  }

  /** The create revision of a key; `null` when there is no such key. */
  async revisionOf(key: Buffer): Promise<bigint | null> {
    const { ranges } = await this.#transactions.read([{ key, keys_only: true }]);
    const kv = ranges[0]?.kvs[0];
    return kv === undefined ? null : BigInt(kv.create_revision);
  }

  async find(lock: LockKeys, ref: ClaimRef): Promise<Standing | null> {
    return (await this.whole(lock)).find((claim) => claim.id === ref.id) ?? null;
  }

  /** Deletes a key if it is still the one that was created at that revision; `null`: whenever it was. */
  async remove(key: Buffer, revision: bigint | null): Promise<WriteResult> {
    const compare =
      revision === null
        ? ({ target: 'Create', result: 'Greater', key, create_revision: '0' } as const)
        : ({ target: 'Create', result: 'Equal', key, create_revision: String(revision) } as const);
    return await this.#transactions.write(
      { compare: [compare], success: [{ request_delete_range: { key } }], failure: [] },
      [key.toString('latin1')],
    );
  }
}

function wholeLine({ from: key, end: range_end }: LockKeys, keysOnly: boolean, from: bigint): RangeRequest {
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
