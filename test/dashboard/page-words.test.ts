import { describe, expect, it } from 'vitest';
import { showMeasured } from '../../src/dashboard/page/parts/durations.ts';

describe('a measured duration', () => {
  it.each([
    [0, '< 0.1 ms'],
    [0.04, '< 0.1 ms'],
    [0.42, '0.4 ms'],
    [0.97, '1 ms'],
    [12.3, '12 ms'],
    [1_449, '1.4 s'],
    [187_000, '3 m 07 s'],
  ])('of %d ms is shown as %s', (ms, words) => {
    expect(showMeasured(ms)).toBe(words);
  });
});
