import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { SqliteStore } from './sqlite-store.ts';

/** Opens `sqlite:./locks.db`, `sqlite:/var/lib/app/locks.db` or `sqlite::memory:`. Percent escapes are read; `sqlite:///path` is the same as `sqlite:/path`. */
export async function openSqlite(url: string, options: { clock?: Clock | undefined }): Promise<Store> {
  const rest = url.replace(/^sqlite:/i, '').replace(/^\/\/(?=\/)/, '');
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
