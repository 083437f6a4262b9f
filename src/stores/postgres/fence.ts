import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { assertNotStale, checkFence } from '../../fence/fence-gate.ts';
import type { Hold } from '../../hold/hold.ts';
import { stateIn } from './failure.ts';
import { checkQueryable, type Queryable, rowsOf } from './queryable.ts';
import { Schema } from './schema.ts';

/** Where the fences are remembered. */
export interface PostgresFenceOptions {
  /** The schema that the migrations were made in. Default `holdfast`. */
  readonly schema?: string | undefined;
}

/** `undefined_table`, `undefined_function`, `invalid_schema_name`. */
const NOT_THERE = new Set(['42P01', '42883', '3F000']);

/** The fence steps that a transaction takes, in one schema. */
export class Fences {
  readonly #tx: Queryable;
  readonly #schema: Schema;

  constructor(tx: Queryable, { schema }: PostgresFenceOptions = {}) {
    checkQueryable(tx);
    this.#tx = tx;
    this.#schema = new Schema(schema);
  }

  async pass(step: 'latest_fence' | 'bind_fence', resource: string, fence: bigint): Promise<void> {
    checkFence(resource, fence);
    const text = `SELECT ${this.#schema.quoted}.${step}($1::text, $2::text::int8)::text AS latest`;
    const [row] = await rowsOf<{ latest: string }>(this.#tx, text, [resource, `${fence}`]).catch(
      (error: unknown) => {
        if (!NOT_THERE.has(stateIn(error) ?? '')) throw error;
        throw new UnsupportedError(
          `The fences of Holdfast are not in schema ${this.#schema.name}: run what "holdfast migrations" prints`,
        );
      },
    );
    assertNotStale(resource, fence, BigInt(row?.latest ?? -1));
  }
}

/**
 * Binds a hold's fence to the caller's transaction: until it ends, tables that were given to `holdfast.require_fence` take its writes, and nobody else's without a fence. Bind first, then read and write:
 * an earlier holder that is still writing is waited for, and what it wrote is seen.
 *
 * Rejects with `StaleFenceError` when a later holder of the same lock was here before; then roll back. Outside a transaction it binds nothing that lasts, and the writes are refused. Only the hold of an exclusive
 * lock may be given. What the server itself says passes through unchanged.
 */
export async function bindFence(
  tx: Queryable,
  hold: Pick<Hold, 'name' | 'fence'>,
  options: PostgresFenceOptions = {},
): Promise<void> {
  const fences = new Fences(tx, options);
  if (typeof hold?.name !== 'string' || typeof hold.fence !== 'bigint')
    throw new InvalidArgumentError('hold', 'must be the hold of one lock, with a name and a fence');
  await fences.pass('bind_fence', hold.name, hold.fence);
}
