import { describe, expect, it } from 'vitest';
import type { Claim } from '../../src/stores/zookeeper/claim.ts';
import { EmptyLocks, LockNode } from '../../src/stores/zookeeper/empty-locks.ts';

/** Knows of an earlier claim on `/locks/a`. */
function usedLocks(): EmptyLocks {
  const emptyLocks = new EmptyLocks();
  emptyLocks.left({ lock: '/locks/a', lockNode: null, isFirst: false, position: 1 } as Claim);
  return emptyLocks;
}

it('a lock node that was not worth adding is watched again with the same function', () => {
  const emptyLocks = usedLocks();
  const [first, again] = [emptyLocks.toWatch('/locks/a'), emptyLocks.toWatch('/locks/a')];
  expect(first).not.toBeNull();
  expect(again).toBe(first);
  first?.broken({});
  const next = emptyLocks.toWatch('/locks/a');
  expect(next).not.toBe(first);
  // The client must drop each of them with the connection.
  expect(emptyLocks.reset()).toEqual([['/locks/a', next]]);
});

describe('the next position of an empty queue', () => {
  const watched = (emptyTo: number | null) => {
    const emptyLocks = usedLocks();
    const node = emptyLocks.toWatch('/locks/a') ?? new LockNode();
    node.emptyTo = emptyTo;
    emptyLocks.add('/locks/a', node);
    return { emptyLocks, node };
  };

  it('is the next number, also where numbers wrap around, and only one claim gets it', () => {
    for (const [last, next] of [
      [7, 8],
      [2_147_483_647, -2_147_483_648],
    ] as const) {
      const { emptyLocks } = watched(last);
      const empty = emptyLocks.take('/locks/a');
      expect(empty?.position).toBe(next);
      expect(emptyLocks.take('/locks/a')).toBeNull();
      expect(empty && emptyLocks.isAlone(empty, next)).toBe(true);
    }
  });

  it('proves nothing once the lock node was removed or the connection was lost', () => {
    for (const end of ['removed', 'lost'] as const) {
      const { emptyLocks, node } = watched(7);
      const empty = emptyLocks.take('/locks/a');
      if (end === 'removed') node.broken({});
      else emptyLocks.reset();
      expect(empty && emptyLocks.isAlone(empty, 8)).toBe(false);
      expect(emptyLocks.nodeOf('/locks/a')).toBeNull();
    }
  });

  it('is counted along with the claim while others use the lock too', () => {
    const { emptyLocks, node } = watched(7);
    const empty = emptyLocks.take('/locks/a');
    expect(empty?.isLikely).toBe(true);
    expect(empty && emptyLocks.isAlone(empty, 9)).toBe(false);
    node.emptyTo = 9;
    const next = emptyLocks.take('/locks/a');
    expect(next?.isLikely).toBe(false);
    expect(next && emptyLocks.isAlone(next, 10)).toBe(true);
    node.emptyTo = 10;
    expect(emptyLocks.take('/locks/a')?.isLikely).toBe(true);
  });
});
