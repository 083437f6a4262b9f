import { expect, it } from 'vitest';
import { failureOf } from '../../src/stores/postgres/failure.ts';

const failed = (code: string): string => failureOf(Object.assign(new Error(code), { code })).applied;

it('what the server says that it has undone is undone', () => {
  for (const code of ['40001', '22003', '25006', 'P0001', 'HF003', '57014']) expect(failed(code)).toBe('no');
});

it('a link that broke says nothing of what the server did, however its code is spelled', () => {
  for (const code of ['EPIPE', 'EPERM', 'ECONNRESET', 'CONNECTION_CLOSED'])
    expect(failed(code)).toBe('unknown');
  for (const code of ['57P01', '57P02', '57P05', '25P03', '25P04', '08006', 'XX000'])
    expect(failed(code)).toBe('unknown');
});
