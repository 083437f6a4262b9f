import type { Claims } from './claims.ts';
import type { Row } from './connection.ts';
import { LIST, LIST_ROWS } from './statements.ts';

/** The locks with claims whose names begin so. */
export async function* listNames(
  claims: Claims,
  prefix: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<string> {
  for (let last: string | undefined = ''; last !== undefined; ) {
    const values = [last, prefix, `${Buffer.byteLength(prefix)}`, prefix];
    const page: readonly Row[] = await claims.query({ text: LIST, values }, signal);
    for (const [name, , , leftUs] of page) if (Number(leftUs) > 0) yield String(name);
    last = page.length < LIST_ROWS ? undefined : String(page.at(-1)?.[0]);
  }
}
