import { InvalidArgumentError } from '../errors.ts';

/**
 * Prints the SQL that an empty database needs: for MySQL when the URL is a MySQL URL, else for
 * PostgreSQL. Does not connect.
 */
export async function migrations(schema: string | undefined, url: string | undefined): Promise<number> {
  const script = await scriptFor(schema, url);
  process.stdout.write(script);
  return 0;
}

async function scriptFor(schema: string | undefined, url = 'postgres://'): Promise<string> {
  if (/^mysql:/i.test(url)) {
    if (schema !== undefined)
      throw new InvalidArgumentError('--schema', 'is for PostgreSQL; a MySQL URL has prefix=…');
    const { parseMysqlUrl } = await import('../stores/mysql/open.ts');
    const { Schema } = await import('../stores/mysql/schema.ts');
    return new Schema(parseMysqlUrl(url).prefix).script;
  }
  if (!/^postgres(?:ql)?:/i.test(url))
    throw new InvalidArgumentError('--store', 'must be a postgres: or mysql: URL: no other store has tables');
  const { Schema } = await import('../stores/postgres/schema.ts');
  const named = new URLSearchParams(url.split('?')[1] ?? '').get('schema') ?? undefined;
  return new Schema(schema ?? named).script;
}
