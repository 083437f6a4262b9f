import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { checkParameters, splitQuery } from '../shared/url.ts';
import { SqliteStore } from './sqlite-store.ts';

interface OpenOptions {
  readonly clock?: Clock | undefined;
  readonly openLater?: boolean | undefined;
}

const FILE_NAME = 'a ? in the name of a file is written %3F';

/**
 * Opens `sqlite:./locks.db`, `sqlite:/var/lib/app/locks.db` (or `sqlite:///var/…`) or `sqlite::memory:`.
 * Percent escapes are decoded. There are no parameters.
 */
export async function openSqlite(url: string, options: OpenOptions): Promise<Store> {
  const [place, query] = splitQuery(url);
  checkParameters(query, [], FILE_NAME);
  // A file may really be called "what?".
  if (query !== null) throw new InvalidArgumentError('url', `must have no ?; ${FILE_NAME}`);
  const rest = place.replace(/^sqlite:/i, '').replace(/^\/\/(?=\/)/, '');
  let path: string;
  try {
    path = decodeURIComponent(rest);
  } catch {
    throw new InvalidArgumentError('url', 'has a percent sign that escapes nothing; write %25 for one');
  }
  if (path === '' || path.startsWith('//'))
    throw new InvalidArgumentError('url', 'must name a file: sqlite:./locks.db');
  return new SqliteStore(path, { clock: options.clock }, undefined, {
    openLater: options.openLater === true,
  });
}
