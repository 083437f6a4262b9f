import { describe, expect, it } from 'vitest';
import { judge } from '../../src/stores/shared/claim-order.ts';
import { parseNode } from '../../src/stores/zookeeper/node-name.ts';
import { Queue } from '../../src/stores/zookeeper/queue.ts';

describe('row 57: queue positions are numbers of 32 bits', () => {
  it('that wrap around below zero', () => {
    const [a, b, c] = ['a~1__lock__2147483646', 'b~1__lock__2147483647', 'c~1__lock__-2147483648'] as const;
    const queue = new Queue([c, a, b]);
    expect(queue.claims.map(({ id }) => id)).toEqual(['a', 'b', 'c']);
    expect(judge(queue.claims, 0)).toEqual({ granted: true });
    expect(judge(queue.claims, 2)).toEqual({ granted: false, behind: 1 });
    // Java writes a minus sign in place of a digit.
    expect(parseNode('d~1__lock__-000000005')).toMatchObject({ id: 'd', session: '1', position: -5 });
  });
});

describe('a claim that is in the queue twice', () => {
  it('counts as the first of the two, and nodes of other sessions do not count', () => {
    const queue = new Queue(['a~2__lock__0000000003', 'a~2__lock__0000000002', 'a~1__lock__0000000001']);
    expect(queue.indexOf('a', '2')).toBe(1);
    expect(queue.indexOf('a', '3')).toBe(-1);
    expect(queue.withId('a').map(({ position }) => position)).toEqual([1, 2, 3]);
    expect(queue.withId('b')).toEqual([]);
  });
});
