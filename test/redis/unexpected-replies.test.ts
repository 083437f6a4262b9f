import { describe, expect, it } from 'vitest';
import { Keys } from '../../src/stores/redis/keys.ts';
import { releaseOperation, renewOperation } from '../../src/stores/redis/operations.ts';
import { withdrawOperation } from '../../src/stores/redlock/operations.ts';

const keys = new Keys('holdfast:');
const claim = { name: 'a', id: 'id' };
const sending = { sentAt: { monotonicMs: 0, wallMs: 0 }, isRepeat: false };

/** Such as a proxy may give, or a list that is too short. */
const UNEXPECTED = ['OK', '', '3', '10', null, undefined];

describe('a reply that the script never gives says nothing about the claim', () => {
  it.each(UNEXPECTED)('to a renewal: %j', (reply) => {
    const { decode } = renewOperation(keys);
    expect(() => decode({ ...claim, change: { ttlMs: 1_000 } }, reply, sending)).toThrow(
      expect.objectContaining({ code: 'STORE', applied: 'unknown' }),
    );
  });

  it.each(UNEXPECTED)('to a release: %j', (reply) => {
    const { decode } = releaseOperation(keys);
    expect(() => decode({ ...claim, evict: false, hasWaited: false }, reply, sending)).toThrow(
      expect.objectContaining({ code: 'STORE', applied: 'unknown' }),
    );
  });

  it.each(UNEXPECTED)('to a claim that is taken back: %j', (reply) => {
    const { decode } = withdrawOperation(keys);
    expect(() => decode(claim, reply, sending)).toThrow(
      expect.objectContaining({ code: 'STORE', applied: 'unknown' }),
    );
  });
});

it('the replies of the scripts are understood', () => {
  const renew = renewOperation(keys);
  const renewed = ['1', 1, '0', 0].map(
    (reply) => renew.decode({ ...claim, change: { ttlMs: 1_000 } }, reply, sending).held,
  );
  expect(renewed).toEqual([true, true, false, false]);
  const release = releaseOperation(keys);
  const released = ['1', 2, 0].map((reply) =>
    release.decode({ ...claim, evict: false, hasWaited: false }, reply, sending),
  );
  expect(released).toEqual(['removed', 'handed', 'gone']);
  expect([1, '0'].map((reply) => withdrawOperation(keys).decode(claim, reply, sending))).toEqual([
    true,
    false,
  ]);
});
