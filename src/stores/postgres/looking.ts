import type { StoredClaim } from '../../store/store.ts';
import { modeOf } from '../mode-columns.ts';
import type { Lanes } from './lanes.ts';
import type { Schema } from './schema.ts';

/** The calls that are not worth batching. */

/** Names in one answer. */
const PAGE = 1_000;
/** How often a lock that is busy is asked for. */
const OBSERVE_TRIES = 20;

export async function readClaims(
  lanes: Lanes,
  schema: Schema,
  name: string,
  signal: AbortSignal | undefined,
): Promise<StoredClaim[]> {
  const columns = ['id', 'granted', 'count', 'permits', 'fence', 'held_for_ms', 'expires_in_ms', 'note'];
  const text = `SELECT ${columns.map((column) => `${column}::text`).join(', ')} FROM holdfast.read($1)`;
  const rows = await lanes.run({ text: schema.sql(text), values: [name] }, signal);
  return rows.map(
    ([id = null, granted = null, count, permits, fence = null, held = null, expires, note]) => ({
      id: id ?? '',
      granted: granted === 'true',
      mode: modeOf({ count: Number(count), of: Number(permits) }),
      fence: fence === null ? null : BigInt(fence),
      heldForMs: held === null ? null : Number(held),
      expiresInMs: Number(expires),
      note: note ?? '',
    }),
  );
}

/** Names of the locks that begin so, each once. What comes or goes meanwhile may be missed. */
export async function* listNames(
  lanes: Lanes,
  schema: Schema,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncIterable<string> {
  const text = schema.sql(`SELECT holdfast.list($1, $2, ${PAGE})`);
  let after = '';
  for (;;) {
    const rows = await lanes.run({ text, values: [prefix, after] }, signal);
    for (const [name] of rows) yield name ?? '';
    if (rows.length < PAGE) return;
    after = rows.at(-1)?.[0] ?? '';
  }
}

/** Asks to be told of every change of a lock; for 0 ms: no more. */
export async function observe(
  lanes: Lanes,
  schema: Schema,
  { name, channel, forMs }: { name: string; channel: string; forMs: number },
): Promise<void> {
  const text = schema.sql('SELECT holdfast.observe($1, $2, $3)::text');
  for (let tries = 0; tries < OBSERVE_TRIES; tries += 1) {
    const [row] = await lanes.run({ text, values: [name, channel, `${forMs}`] }, undefined);
    if (row?.[0] === 'true') return;
  }
}

export async function prune(lanes: Lanes, schema: Schema): Promise<number> {
  const [row] = await lanes.run({ text: schema.sql('SELECT holdfast.prune()::text') }, undefined);
  return Number(row?.[0] ?? 0);
}

/**
 * Gives the space of deleted rows back to their tables, not to the disk: for that the server would wait up to five seconds until nobody else uses the table, and whatever goes over this connection with it.
 * Whoever does not own the tables is told so by the server in a notice, and leaves it to the server's own cleaning.
 */
export async function vacuum(lanes: Lanes, schema: Schema): Promise<void> {
  const tables = ['locks', 'shares', 'places'].map((table) => `holdfast.${table}`).join(', ');
  await lanes.run({ text: schema.sql(`VACUUM (SKIP_LOCKED, TRUNCATE false) ${tables}`) }, undefined);
}
