import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ModeMismatchError, StoreError } from '../../src/errors.ts';
import { agree, grantedCount } from '../../src/store/grant-rule.ts';
import type { Mode } from '../../src/store/store.ts';
import {
  asUnknownIfStanding,
  checkCompatible,
  checkFence,
  isOverBound,
  judge,
  type QueuedClaim,
} from '../../src/stores/shared/claim-order.ts';

const readWrite: fc.Arbitrary<Mode> = fc.constantFrom({ kind: 'exclusive' }, { kind: 'shared' });
const permitsOf = (of: number): fc.Arbitrary<Mode> =>
  fc.integer({ min: 1, max: of }).map((count) => ({ kind: 'permits', count, of }));
const anyMode: fc.Arbitrary<Mode> = fc.oneof(readWrite, permitsOf(2), permitsOf(3));
const queueOf = (mode: fc.Arbitrary<Mode>): fc.Arbitrary<QueuedClaim[]> =>
  fc.array(
    mode.map((each) => ({ mode: each })),
    { minLength: 1, maxLength: 12 },
  );
/** Compatible claims, as a queue has them once every new claim has been checked. */
const compatible = fc.oneof(
  queueOf(readWrite),
  fc.integer({ min: 1, max: 5 }).chain((of) => queueOf(permitsOf(of))),
);
/** Claims as they are read while an incompatible one has not left yet. */
const mixed = queueOf(anyMode);
const modesOf = (queue: readonly QueuedClaim[]): Mode[] => queue.map(({ mode }) => mode);

describe('judge', () => {
  it('grants exactly the claims that the grant rule grants', () => {
    fc.assert(
      fc.property(compatible, (queue) => {
        const granted = grantedCount(modesOf(queue));
        for (const at of queue.keys()) expect(judge(queue, at).granted).toBe(at < granted);
      }),
      { numRuns: 1_000 },
    );
  });

  it('needs no more of the queue than what is ahead', () => {
    fc.assert(
      fc.property(mixed, fc.nat(), (queue, n) => {
        const at = n % queue.length;
        expect(judge(queue.slice(0, at + 1), at)).toEqual(judge(queue, at));
      }),
    );
  });

  it('names a claim that must be gone before this one can be granted, whatever else leaves', () => {
    fc.assert(
      fc.property(
        mixed,
        fc.nat(),
        fc.array(fc.boolean(), { minLength: 12, maxLength: 12 }),
        (queue, n, stays) => {
          const at = n % queue.length;
          const verdict = judge(queue, at);
          if (verdict.granted || verdict.behind === null) return;
          const { behind } = verdict;
          expect(behind).toBeLessThan(at);
          const left = queue.filter((_, index) => index === at || index === behind || stays[index] === true);
          const own = queue[at];
          if (own !== undefined) expect(judge(left, left.indexOf(own)).granted).toBe(false);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  it('names none only for permits, where any of several claims can make room', () => {
    fc.assert(
      fc.property(mixed, (queue) => {
        for (const [at, { mode }] of queue.entries()) {
          const verdict = judge(queue, at);
          if (!verdict.granted) expect(verdict.behind === null).toBe(mode.kind === 'permits');
        }
      }),
    );
  });

  it('never grants beside an incompatible claim ahead', () => {
    fc.assert(
      fc.property(mixed, (queue) => {
        for (const [at, { mode }] of queue.entries()) {
          const isBlocked = queue.slice(0, at).some((ahead) => !agree(ahead.mode, mode));
          if (isBlocked) expect(judge(queue, at).granted).toBe(false);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  it('refuses to judge a claim that is not in the queue', () => {
    expect(() => judge([{ mode: { kind: 'shared' } }], 1)).toThrow(RangeError);
  });
});

describe('checkCompatible', () => {
  it('names the mode of the first claim exactly when the claim disagrees with it', () => {
    fc.assert(
      fc.property(mixed, (queue) => {
        const first = queue[0]?.mode;
        for (const [at, { mode }] of queue.entries()) {
          const isDifferent = first !== undefined && at > 0 && !agree(first, mode);
          expect(checkCompatible(queue, at)).toBe(isDifferent ? first : null);
        }
      }),
    );
  });
});

describe('isOverBound', () => {
  it('counts the claims that wait up to this one, and none behind it', () => {
    fc.assert(
      fc.property(compatible, fc.integer({ min: 1, max: 12 }), (queue, queueMax) => {
        for (const at of queue.keys()) {
          const waiting = at + 1 - grantedCount(modesOf(queue.slice(0, at + 1)));
          expect(isOverBound(queue, at, queueMax)).toBe(waiting > queueMax);
        }
      }),
    );
  });
});

describe('checkFence', () => {
  it('refuses with applied: no a fence that is not above the one that was seen', () => {
    expect(checkFence(8n, 7n, 'The revision')).toBeNull();
    for (const fence of [6n, 7n]) {
      const refusal = checkFence(fence, 7n, 'The revision');
      expect(refusal).toMatchObject({ code: 'STORE', applied: 'no' });
      expect(refusal?.message).toContain(`The revision is ${fence}`);
    }
  });
});

describe('asUnknownIfStanding', () => {
  const no = new StoreError('refused', { applied: 'no' });

  it('makes a definite "no" unknown while the claim may stand', () => {
    expect(asUnknownIfStanding(no, true)).toMatchObject({
      applied: 'unknown',
      message: 'refused',
      cause: no,
    });
    expect(asUnknownIfStanding(no, false)).toBe(no);
  });

  it('leaves every other error as it is', () => {
    const unknown = new StoreError('silence', { applied: 'unknown' });
    const mismatch = new ModeMismatchError('jobs', { kind: 'shared' }, { kind: 'permits', count: 1, of: 2 });
    for (const error of [unknown, mismatch, new Error('other')])
      expect(asUnknownIfStanding(error, true)).toBe(error);
  });
});
