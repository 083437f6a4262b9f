import { InvalidArgumentError } from '../errors.ts';

/**
 * Prints the SQL that an empty database needs: that of `store`, else of `HOLDFAST_URL`, else of
 * PostgreSQL. Does not connect.
 */
export async function migrations(schema: string | undefined, store: string | undefined): Promise<number> {
  const { HOLDFAST_URL: inEnvironment = '' } = process.env;
  const [argument, url] = store === undefined ? ['HOLDFAST_URL', inEnvironment] : ['--store', store];
  const script = await scriptFor(schema, argument, url === '' ? 'postgres://' : url);
  process.stdout.write(script);
  return 0;
}

async function scriptFor(schema: string | undefined, argument: string, url: string): Promise<string> {
  if (/^mysql:/i.test(url)) {
    if (schema !== undefined)
      throw new InvalidArgumentError('--schema', 'is for PostgreSQL; a MySQL URL has prefix=…');
    const { parseMysqlUrl } = await import('../stores/mysql/open.ts');
    const { Schema } = await import('../stores/mysql/schema.ts');
    return new Schema(parseMysqlUrl(url).prefix).script;
  }
  if (!/^postgres(?:ql)?:/i.test(url))
    throw new InvalidArgumentError(argument, 'must be a postgres: or mysql: URL: no other store has tables');
  const { Schema } = await import('../stores/postgres/schema.ts');
  const named = new URLSearchParams(url.split('?')[1] ?? '').get('schema') ?? undefined;
  return new Schema(schema ?? named).script;
}
