import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { checkParameters, splitQuery } from '../url-query.ts';
import { SqliteStore } from './sqlite-store.ts';

const FILE_NAME = 'a ? in the name of a file is written %3F';

/** Opens `sqlite:./locks.db`, `sqlite:/var/lib/app/locks.db` or `sqlite::memory:`. Percent escapes are read; `sqlite:///path` is the same as `sqlite:/path`. There are no parameters: a `?` in the name of a file is written `%3F`. */
export async function openSqlite(url: string, options: { clock?: Clock | undefined }): Promise<Store> {
  const [place, query] = splitQuery(url);
  checkParameters(query, [], FILE_NAME);
  // A file may really be called "what?": that is not for us to guess.
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
  return new SqliteStore(path, { clock: options.clock });
}
