import { expect, it } from 'vitest';
import { PendingReplies } from '../../src/stores/redis/cluster/pending-replies.ts';
import { virtualClock } from '../../src/testing/index.ts';

it('a node is stuck when many commands have had no reply for five seconds, until it replies', async () => {
  const clock = virtualClock();
  const replies = new PendingReplies(clock, () => {});
  const settle = Array.from({ length: 64 }, () => replies.add('a:1', 1, () => {}));
  replies.add('b:1', 2, () => {});
  expect(replies.isStuck('a:1')).toBe(false);
  await clock.advance(5_000);
  expect(['a:1', 'b:1', 'c:1'].map((address) => replies.isStuck(address))).toEqual([true, false, false]);
  settle[0]?.();
  replies.add('a:1', 1, () => {});
  expect(replies.isStuck('a:1')).toBe(false);
  replies.close();
});
