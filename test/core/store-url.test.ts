import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { InvalidArgumentError, openLocks } from '../../src/index.ts';
import { parsePostgresUrl } from '../../src/stores/postgres/open.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

const refusal = async (url: string): Promise<InvalidArgumentError> => {
  const error: unknown = await openLocks(url).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(InvalidArgumentError);
  expect(error).toMatchObject({ argument: 'url' });
  return error as InvalidArgumentError;
};

describe('a parameter that a store does not know', () => {
  it.each([
    ['memory:', 'none here'],
    [`sqlite:${folder.file('l.db')}`, 'write %3F'],
    ['redis://me:secret@h:1/0', 'known here: prefix, family'],
    ['rediss://me:secret@h:1/0', 'known here: prefix, family'],
    ['redis+cluster://me:secret@h:1', 'known here: prefix'],
    ['redis+sentinel://me:secret@h:1/main', 'known here: prefix'],
    ['redlock://me:secret@h:1', 'known here: prefix'],
    ['postgres://me:secret@h:1/db', 'known here: mode, schema, host, '],
    ['postgresql://me:secret@h:1/db', 'known here: mode, schema, host, '],
    ['mysql://me:secret@h:1/db', 'known here: prefix, ssl, socket'],
    ['etcd://me:secret@h:1', 'known here: tls, ca, cert, key, prefix'],
    ['zookeeper://me:secret@h:1', 'known here: root, sessionMs'],
  ])('is named, and so are those that it knows: %s', async (url, known) => {
    const { message } = await refusal(`${url}?ttlMs=31415`);
    expect(message).toContain('unknown parameter "ttlMs"');
    expect(message).toContain(known);
    expect(message).not.toMatch(/secret|31415/);
    await refusal(`${url}?ttlMs`);
  });

  it.each([
    'redis://h?prefix=a&prefix=b',
    'postgres://h/db?mode=lease&mode=advisory',
    'etcd://h?prefix=&prefix=',
  ])('is as bad as one that is given twice: %s', async (url) => {
    expect((await refusal(url)).message).toMatch(/has the parameter (?:prefix|mode) twice/);
  });

  it('is not named when it may be a part of an unescaped password', async () => {
    for (const url of [
      'postgres://me:pass?secret@h/db',
      'redis://me:pass?secret&x=1@h',
      'redlock://me:p?secret=@h',
    ])
      expect((await refusal(url)).message).not.toContain('secret');
  });
});

describe('of Redis', () => {
  it.each(['redis://h?prefix=%zz', 'redis://h?family=5', 'redis://h?family='])(
    '%s is refused',
    async (url) => {
      await refusal(url);
    },
  );

  it.each(['redis://h', 'redis+cluster://h', 'redis+sentinel://h/main', 'redlock://h'])(
    '%s with a prefix that is too long is refused before anything is opened',
    async (url) => {
      await expect(openLocks(`${url}?prefix=${'x'.repeat(257)}`)).rejects.toMatchObject({
        code: 'INVALID_ARGUMENT',
        argument: 'prefix',
      });
    },
  );
});

describe('of SQLite', () => {
  it('a file name with a question mark is written with %3F', async () => {
    const locks = await openLocks(`sqlite:${folder.file('why%3Fttl=3.db')}`);
    await locks.withLock('x', () => {});
    await locks.close();
    expect(existsSync(folder.file('why?ttl=3.db'))).toBe(true);
  });

  it('an unescaped question mark creates no file, not even at the end', async () => {
    for (const name of ['what?', 'l.db?ttlMs=3', 'l.db?&']) {
      expect((await refusal(`sqlite:${folder.file(name)}`)).message).toContain('%3F');
      expect([existsSync(folder.file(name)), existsSync(folder.file('l.db'))]).toEqual([false, false]);
    }
  });
});

describe('of PostgreSQL', () => {
  const source = (path: string): string =>
    readFileSync(fileURLToPath(new URL(`../../node_modules/${path}`, import.meta.url)), 'utf8');

  it('parameters of the client library are passed on to it', () => {
    const parsed = source('pg-connection-string/index.js').matchAll(/\bconfig\.(\w+)/g);
    const declared = source('pg-connection-string/index.d.ts').matchAll(/^ {2}(\w+)\??: /gm);
    const used = source('pg/lib/connection-parameters.js').matchAll(/\bval\('(\w+)'/g);
    const names = new Set([...parsed, ...declared, ...used].map((match) => match[1] ?? ''));
    // The path of the URL says it; the others are no parameters but parts of what `ssl` becomes,
    // and an option of the parser.
    for (const other of ['database', 'ca', 'cert', 'key', 'rejectUnauthorized', 'useLibpqCompat'])
      names.delete(other);
    expect([...names]).toEqual(
      expect.arrayContaining(['sslmode', 'application_name', 'host', 'options', 'lock_timeout']),
    );
    for (const name of names) {
      expect(parsePostgresUrl(`postgres://h/db?${name}=a%20b&schema=s`)).toEqual({
        rest: `postgres://h/db?${name}=a%20b`,
        mode: 'lease',
        schema: 's',
      });
    }
  });

  it('the parameters of hosting companies are accepted', () => {
    const url = 'postgres://u:p@h/db?sslmode=require&channel_binding=require&connect_timeout=10';
    expect(parsePostgresUrl(url).rest).toBe(url);
  });
});
