import { expect, it } from 'vitest';
import { parseMysqlUrl } from '../../src/stores/mysql/open.ts';

it('reads all parts of a URL, percent-decoded', () => {
  expect(parseMysqlUrl('mysql://a%40b:p%3A%2F@[::1]:3307/my%20db?prefix=x_&ssl=true')).toEqual({
    settings: {
      host: '::1',
      port: 3307,
      user: 'a@b',
      password: 'p:/',
      database: 'my db',
      socketPath: undefined,
      ssl: { rejectUnauthorized: true, verifyIdentity: true },
    },
    prefix: 'x_',
  });
});

it('has the usual host and port, no encryption and the usual prefix unless set', () => {
  const { settings, prefix } = parseMysqlUrl('mysql:///db?socket=/run/mysqld.sock');
  expect(settings).toMatchObject({
    host: 'localhost',
    port: 3306,
    socketPath: '/run/mysqld.sock',
    ssl: undefined,
  });
  expect(prefix).toBeUndefined();
});

it.each([
  'mysql://h',
  'mysql://h/',
  'mysql://h/a/b',
  'mysql://h:port/db',
  'mysql://h:65536/db',
  'mysql://h/db?ssl=maybe',
  'mysql://h/db?timeout=5',
  'mysql://u:secret%zz@h/db',
  'mysql://u:secret@h/%zz',
])('refuses %s without repeating what may be a password', (url) => {
  expect(() => parseMysqlUrl(url)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  expect(() => parseMysqlUrl(url)).not.toThrow(/secret/);
});
