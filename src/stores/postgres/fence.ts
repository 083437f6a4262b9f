import { checkKeys } from '../../checks.ts';
import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import { assertNotStale, checkFence } from '../../fence/fence-gate.ts';
import { MISSING, stateIn } from './failure.ts';
import { assertTransaction, checkQueryable, type Queryable, rowsOf } from './queryable.ts';
import { Schema } from './schema.ts';

/** Options of the fence gate and of `bindFence`. */
export interface PostgresFenceOptions {
  /** The schema with the tables of Holdfast. Default `holdfast`. */
  readonly schema?: string | undefined;
}

/** Checks and binds fences inside a transaction. */
export class Fences {
  readonly #tx: Queryable;
  readonly #schema: Schema;

  constructor(tx: Queryable, options: PostgresFenceOptions) {
    checkQueryable(tx);
    this.#tx = tx;
    this.#schema = new Schema(checkKeys(options, ['schema']).schema);
  }

  async pass(step: 'latest_fence' | 'bind_fence', resource: string, fence: bigint): Promise<void> {
    checkFence(resource, fence);
    const text = `SELECT ${this.#schema.quoted}.${step}($1::text, $2::text::int8)::text AS latest`;
    const [row] = await this.#installed(rowsOf<{ latest: string }>(this.#tx, text, [resource, `${fence}`]));
    assertNotStale(resource, fence, BigInt(row?.latest ?? -1));
  }

  async assertTransaction(): Promise<void> {
    const table = `${this.#schema.quoted}.fences`;
    await this.#installed(assertTransaction(this.#tx, table, 'the fence would be forgotten at once'));
  }

  async #installed<T>(work: Promise<T>): Promise<T> {
    return await work.catch((error: unknown) => {
      if (!MISSING.has(stateIn(error) ?? '')) throw error;
      const { name } = this.#schema;
      throw new UnsupportedError(
        `The fences of Holdfast are not in schema ${name}: ` +
          `run what "holdfast migrations --schema ${name}" prints`,
      );
    });
  }
}

/**
 * Binds a hold's fence to the caller's transaction. Until it ends, tables that were given to
 * `holdfast.require_fence` accept its writes; they refuse writes without a fence. Bind first, then
 * read and write: binding waits for an earlier holder that is still writing, so that the transaction
 * sees what it wrote.
 *
 * Rejects with `StaleFenceError` when a later holder of the same lock has bound its fence; then roll
 * back. Rejects with `InvalidArgumentError` when `tx` is not inside a transaction. Above READ
 * COMMITTED, rejects with the server's serialization failure (40001) when an earlier holder has
 * committed since the transaction's snapshot; then roll back and start again. Only the hold of an
 * exclusive lock may be given. Other errors of the server pass through unchanged.
 */
export async function bindFence(
  tx: Queryable,
  hold: { readonly name: string; readonly fence: bigint },
  options: PostgresFenceOptions = {},
): Promise<void> {
  const fences = new Fences(tx, options);
  if (typeof hold?.name !== 'string' || typeof hold.fence !== 'bigint')
    throw new InvalidArgumentError('hold', 'must be the hold of one lock, with a name and a fence');
  await fences.assertTransaction();
  await fences.pass('bind_fence', hold.name, hold.fence);
}
