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

/** `no_active_sql_transaction`. */
const NO_TRANSACTION = '25P01';

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
    const [row] = await this.#rows<{ latest: string }>(text, [resource, `${fence}`]);
    assertNotStale(resource, fence, BigInt(row?.latest ?? -1));
  }

  /**
   * The server refuses LOCK TABLE outside a transaction, and takes no snapshot for it. The next step would take this lock, the weakest there is, anyway.
   */
  async assertTransaction(): Promise<void> {
    await this.#rows(`LOCK TABLE ${this.#schema.quoted}.fences IN ACCESS SHARE MODE`);
  }

  async #rows<R>(text: string, values: string[] = []): Promise<readonly R[]> {
    return await rowsOf<R>(this.#tx, text, values).catch((error: unknown) => {
      const state = stateIn(error) ?? '';
      if (state === NO_TRANSACTION)
        throw new InvalidArgumentError(
          'tx',
          'is not inside a transaction: the fence would be bound to nothing',
        );
      if (!NOT_THERE.has(state)) throw error;
      throw new UnsupportedError(
        `The fences of Holdfast are not in schema ${this.#schema.name}: run what "holdfast migrations" prints`,
      );
    });
  }
}

/**
 * Binds a hold's fence to the caller's transaction: until it ends, tables that were given to `holdfast.require_fence` take its writes, and nobody else's without a fence. Bind first, then read and write:
 * an earlier holder that is still writing is waited for, and what it wrote is seen.
 *
 * Rejects with `StaleFenceError` when a later holder of the same lock was here before; then roll back. Rejects with `InvalidArgumentError` when `tx` is not inside a transaction, where the
 * fence would be bound to nothing. Only the hold of an exclusive lock may be given. What the server itself says passes through unchanged.
 */
export async function bindFence(
  tx: Queryable,
  hold: Pick<Hold, 'name' | 'fence'>,
  options: PostgresFenceOptions = {},
): Promise<void> {
  const fences = new Fences(tx, options);
  if (typeof hold?.name !== 'string' || typeof hold.fence !== 'bigint')
    throw new InvalidArgumentError('hold', 'must be the hold of one lock, with a name and a fence');
  await fences.assertTransaction();
  await fences.pass('bind_fence', hold.name, hold.fence);
}
