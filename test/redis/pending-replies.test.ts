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

it('commands at a silent node are rejected when their slots have moved, and free the node', async () => {
  const clock = virtualClock();
  let silences = 0;
  const replies = new PendingReplies(clock, () => {
    silences += 1;
  });
  const rejected: string[] = [];
  const add = (slot: number): (() => boolean) =>
    replies.add('a:1', slot, (error) => rejected.push(`${slot}: ${error.message}`));
  const [moved, stays] = [add(1), add(2)];
  for (let n = 0; n < 64; n += 1) add(1);
  await clock.advance(900);
  const addressOf = (slot: number): string => (slot === 1 ? 'b:1' : 'a:1');
  replies.failMoved(addressOf);
  expect([rejected.length, silences]).toEqual([0, 0]);
  await clock.advance(4_200);
  expect(replies.isStuck('a:1')).toBe(true);
  expect(silences).toBe(5);
  replies.failMoved(addressOf);
  expect(rejected).toHaveLength(65);
  expect(rejected[0]).toBe('1: no answer from a:1, and its slot is served by another node now');
  // A reply that comes late must not be followed, and one that is still awaited is.
  expect([moved?.(), stays?.()]).toEqual([false, true]);
  await clock.advance(1_000);
  expect(replies.isStuck('a:1')).toBe(false);
  replies.close();
});
