import type { StoredClaim } from '../../store/store.ts';
import { modeOf } from '../shared/mode-columns.ts';
import type { LeaseBatch } from './lease-batch.ts';

/** How many names one statement reads. */
const PAGE = 1_000;

export async function readClaims(
  batch: LeaseBatch,
  name: string,
  signal: AbortSignal | undefined,
): Promise<StoredClaim[]> {
  const columns = ['id', 'granted', 'count', 'permits', 'fence', 'held_for_ms', 'expires_in_ms', 'note'];
  const text = `SELECT ${columns.map((column) => `${column}::text`).join(', ')} FROM holdfast.read($1)`;
  const rows = await batch.add({ text, values: [name] }, signal);
  return rows.map(([id, granted, count, permits, fence = null, held = null, expires, note]) => ({
    id: id ?? '',
    granted: granted === 'true',
    mode: modeOf({ count: Number(count), of: Number(permits) }),
    fence: fence === null ? null : BigInt(fence),
    heldForMs: held === null ? null : Number(held),
    expiresInMs: Number(expires),
    note: note ?? '',
  }));
}

/** Each name once. A lock that is created or deleted meanwhile may be missed. */
export async function* listNames(
  batch: LeaseBatch,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncIterable<string> {
  const text = `SELECT holdfast.list($1, $2, ${PAGE})`;
  let after = '';
  for (;;) {
    const rows = await batch.add({ text, values: [prefix, after] }, signal);
    for (const [name] of rows) yield name ?? '';
    if (rows.length < PAGE) return;
    after = rows.at(-1)?.[0] ?? '';
  }
}
