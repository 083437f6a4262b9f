import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { AdvisoryStore } from './advisory/advisory-store.ts';
import { dialUrl } from './dial.ts';
import { PostgresLeaseStore } from './lease-store.ts';

/**
 * A store in the PostgreSQL of a `postgres://` or `postgresql://` URL: `postgres://user:password@host:5432/database?mode=lease` or `?mode=advisory`. `mode` is ours, and so is `schema`; everything else is for
 * the client library. Rejects with `InvalidArgumentError` for a mode that is none, and with `UnsupportedError` when no client library is installed.
 */
export async function openPostgres(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const { rest, mode, schema } = parsePostgresUrl(url);
  const dial = await dialUrl(rest);
  if (mode === 'advisory') return new AdvisoryStore(dial, { clock: options.clock });
  return new PostgresLeaseStore(dial, { schema, clock: options.clock });
}

interface PostgresUrl {
  /** Without what is ours. */
  readonly rest: string;
  readonly mode: 'lease' | 'advisory';
  readonly schema: string | undefined;
}

/** The text of an error never repeats the URL, which may hold a password. */
export function parsePostgresUrl(url: string): PostgresUrl {
  const [place = '', query = ''] = splitOnce(url, '?');
  // As text: a host may be a list, or a path, and then this is no URL as JavaScript has it.
  const parameters = query.split('&').filter((each) => each !== '');
  const take = (name: string): string | undefined => {
    const at = parameters.findIndex((each) => each.startsWith(`${name}=`));
    return at < 0 ? undefined : decoded(name, parameters.splice(at, 1)[0]?.slice(name.length + 1) ?? '');
  };
  const mode = take('mode') ?? 'lease';
  if (mode !== 'lease' && mode !== 'advisory') {
    throw new InvalidArgumentError('url', 'must have mode=lease or mode=advisory');
  }
  const schema = take('schema');
  return { rest: parameters.length === 0 ? place : `${place}?${parameters.join('&')}`, mode, schema };
}

function decoded(name: string, text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new InvalidArgumentError('url', `must have a ${name} that can be decoded`);
  }
}

function splitOnce(text: string, at: string): string[] {
  const index = text.indexOf(at);
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + 1)];
}
