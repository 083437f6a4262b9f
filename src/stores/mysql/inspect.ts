import type { Claims } from './claims.ts';
import type { Row } from './connection.ts';
import { decodeRow, type LockRow } from './lock-row.ts';
import { NOBODY, RowQueue } from './queue.ts';
import type { Statements } from './statements.ts';

/** As many rows as `LIST` reads. */
const PAGE_ROWS = 1_000;

export interface PageOptions {
  /** What the names begin with, and the name after which the first page begins. */
  readonly prefix?: string;
  readonly after?: string;
  readonly isBackground?: boolean;
}

/** The rows of the table in the order of their names, page by page. */
export async function* readPages(
  claims: Claims,
  { LIST }: Statements,
  { prefix = '', after = '', isBackground = false }: PageOptions,
  signal?: AbortSignal,
): AsyncGenerator<readonly LockRow[]> {
  for (let last: string | undefined = after; last !== undefined; ) {
    const values = [last, prefix, `${Buffer.byteLength(prefix)}`, prefix];
    const rows = (await claims.add({ text: LIST, values, isBackground }, signal)) as readonly Row[];
    const page = rows.map(decodeRow);
    yield page;
    last = page.length < PAGE_ROWS ? undefined : page.at(-1)?.name;
  }
}

/** The locks with claims whose names begin so. */
export async function* listNames(
  claims: Claims,
  statements: Statements,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  for await (const page of readPages(claims, statements, { prefix }, signal))
    for (const row of page) if (!isUnused(row)) yield row.name;
}

export function isUnused(row: LockRow): boolean {
  return new RowQueue(row, NOBODY).read().length === 0;
}
