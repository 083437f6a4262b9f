import { expect, it } from 'vitest';
import { failures } from '../../src/stores/mysql/failure.ts';

const failed = (errno: number, sqlState?: string): string =>
  failures.failureOf(Object.assign(new Error(`${errno}`), { errno, sqlState })).applied;

it('what the server says that it has undone is undone', () => {
  for (const errno of [1114, 1205, 1213, 1290, 1690]) expect(failed(errno, 'HY000')).toBe('no');
});

it('a session that ended says nothing of what the server did, nor does a proxy that has lost it', () => {
  for (const errno of [1053, 1927, 4031]) expect(failed(errno, 'HY000')).toBe('unknown');
  for (const errno of [2006, 2013]) expect(failed(errno, 'HY000')).toBe('unknown');
  expect(failed(-104)).toBe('unknown');
});
