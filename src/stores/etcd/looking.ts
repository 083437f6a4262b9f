import { grantedCount } from '../../store/grant-rule.ts';
import type { StoredClaim } from '../../store/store.ts';
import type { Calls } from './calls.ts';
import type { Keys, LockKeys } from './key.ts';
import { standing } from './line.ts';
import type { LineReader } from './line-reader.ts';
import type { Transactions } from './transactions.ts';

const PAGE = 500;
/** How many leases are asked for the time they have left; a view of more holders shows the rest without it. */
const LEASES_MAX = 16;

/** Everything in the line of a lock. etcd knows no times but those of leases, so how long a claim has held is not known. */
export async function readClaims(reader: LineReader, calls: Calls, lock: LockKeys): Promise<StoredClaim[]> {
  const line = (await reader.values(lock, false)).flatMap((kv) => {
    const claim = standing(lock, kv);
    return claim === null ? [] : [{ ...claim, note: kv.value.toString() }];
  });
  const granted = grantedCount(line.map((claim) => claim.mode));
  const times = await timesLeft(
    calls,
    line.map((claim) => claim.lease),
  );
  return line.map((claim, place) => ({
    id: claim.id,
    granted: place < granted,
    mode: claim.mode,
    fence: place < granted ? claim.revision : null,
    heldForMs: null,
    expiresInMs: times.get(claim.lease) ?? null,
    note: claim.note,
  }));
}

async function timesLeft(calls: Calls, leases: readonly string[]): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  const distinct = [...new Set(leases)].filter((lease) => lease !== '0').slice(0, LEASES_MAX);
  await Promise.all(
    distinct.map(async (lease) => {
      // A lease that has just ended is no reason to show nothing.
      const found = await calls.timeToLive(lease).catch(() => null);
      if (found !== null) times.set(lease, found.leftMs);
    }),
  );
  return times;
}

/** Names with at least one key, page by page in the order of the keys. */
export async function* listNames(
  transactions: Transactions,
  keys: Keys,
  prefix: string,
): AsyncGenerator<string, void, undefined> {
  const { from, end } = keys.all(prefix);
  let last: string | null = null;
  for (let key = from; ; ) {
    const { ranges } = await transactions.read([{ key, range_end: end, limit: PAGE, keys_only: true }]);
    const kvs = ranges[0]?.kvs ?? [];
    for (const kv of kvs) {
      const name = keys.nameIn(kv.key);
      if (name === null || name === last || !name.startsWith(prefix)) continue;
      last = name;
      yield name;
    }
    const final = kvs.at(-1);
    if (final === undefined || kvs.length < PAGE) return;
    key = Buffer.concat([final.key, Buffer.from([0])]);
  }
}
