import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { checkParameters, splitQuery, unescaped } from '../shared/url.ts';
import { SqliteStore } from './sqlite-store.ts';

const FILE_NAME = 'write %3F for a ? in a file name';

/** Opens `sqlite:./locks.db`, `sqlite:/var/lib/app/locks.db`, `sqlite:///var/…` or `sqlite::memory:`. */
export async function openSqlite(
  url: string,
  { clock, openLater }: { readonly clock?: Clock | undefined; readonly openLater?: boolean | undefined },
): Promise<Store> {
  const [location, query] = splitQuery(url);
  checkParameters(query, [], FILE_NAME);
  // A file may really be called "what?".
  if (query !== null) throw new InvalidArgumentError('url', `must have no ?; ${FILE_NAME}`);
  const rest = location.replace(/^sqlite:/i, '').replace(/^\/\/(?=\/)/, '');
  const path = unescaped(rest);
  if (path === '' || path.startsWith('//'))
    throw new InvalidArgumentError('url', 'must name a file: sqlite:./locks.db');
  return new SqliteStore(path, { clock }, { openLater });
}
