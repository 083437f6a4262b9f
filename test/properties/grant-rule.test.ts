import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memoryStore } from '../../src/index.ts';
import { agree, capacityOf, fits, grantedCount, weightOf } from '../../src/store/grant-rule.ts';
import type { Mode } from '../../src/store/store.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { request } from '../../src/testing/store-case.ts';

const readWrite: fc.Arbitrary<Mode> = fc.constantFrom({ kind: 'exclusive' }, { kind: 'shared' });
const permitsOf = (of: number): fc.Arbitrary<Mode> =>
  fc.integer({ min: 1, max: of }).map((count) => ({ kind: 'permits', count, of }));
const line: fc.Arbitrary<Mode[]> = fc.oneof(
  fc.array(readWrite, { maxLength: 12 }),
  fc.integer({ min: 1, max: 5 }).chain((of) => fc.array(permitsOf(of), { maxLength: 12 })),
);

describe('the grant rule', () => {
  it('grants the front of the queue as far as it fits, and not one more', () => {
    fc.assert(
      fc.property(line, (modes) => {
        const granted = grantedCount(modes);
        const weightAhead = (count: number): number =>
          modes.slice(0, count).reduce((sum, mode) => sum + weightOf(mode), 0);
        for (const [index, mode] of modes.slice(0, granted).entries())
          expect(fits(weightAhead(index), mode)).toBe(true);
        const next = modes[granted];
        if (next !== undefined)
          expect(weightAhead(granted) + weightOf(next)).toBeGreaterThan(capacityOf(next));
        if (modes.length > 0) expect(granted).toBeGreaterThan(0);
      }),
    );
  });

  it('never takes a grant back for a later arrival', () => {
    fc.assert(
      fc.property(line, fc.nat(), (modes, cut) => {
        const shorter = modes.slice(0, cut % (modes.length + 1));
        expect(grantedCount(modes)).toBeGreaterThanOrEqual(grantedCount(shorter));
      }),
    );
  });

  it('lets exclusive and shared claims wait together, and permits of one capacity', () => {
    expect(agree({ kind: 'exclusive' }, { kind: 'shared' })).toBe(true);
    expect(agree({ kind: 'permits', count: 1, of: 2 }, { kind: 'permits', count: 2, of: 2 })).toBe(true);
    expect(agree({ kind: 'permits', count: 1, of: 2 }, { kind: 'permits', count: 1, of: 3 })).toBe(false);
    expect(agree({ kind: 'shared' }, { kind: 'permits', count: 1, of: 3 })).toBe(false);
  });
});

type Step =
  | { do: 'claim'; mode: Mode; wait: boolean }
  | { do: 'release'; which: number }
  | { do: 'ask'; which: number };

const steps = (mode: fc.Arbitrary<Mode>): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.oneof(
      fc.record({ do: fc.constant('claim' as const), mode, wait: fc.boolean() }),
      fc.record({ do: fc.constant('release' as const), which: fc.nat({ max: 20 }) }),
      fc.record({ do: fc.constant('ask' as const), which: fc.nat({ max: 20 }) }),
    ),
    { maxLength: 30 },
  );
const history = fc.oneof(
  steps(readWrite),
  fc.integer({ min: 1, max: 4 }).chain((of) => steps(permitsOf(of))),
);

describe('the memory store', () => {
  it('grants what the rule grants, after every step of any history', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (taken) => {
        const store = memoryStore({ clock: virtualClock() });
        const model: { id: string; mode: Mode }[] = [];
        for (const step of taken) {
          const known = step.do === 'claim' ? undefined : model[step.which % Math.max(model.length, 1)];
          if (step.do === 'claim') {
            const wanted = request('x', { mode: step.mode, wait: step.wait });
            const outcome = await store.claim(wanted);
            const after = [...model, wanted];
            expect(outcome.granted).toBe(grantedCount(after.map((each) => each.mode)) === after.length);
            if (outcome.granted || step.wait) model.push(wanted);
          } else if (known !== undefined && step.do === 'release') {
            expect(await store.release({ name: 'x', id: known.id })).toBe(true);
            model.splice(model.indexOf(known), 1);
          } else if (known !== undefined) {
            const granted = model.indexOf(known) < grantedCount(model.map((each) => each.mode));
            expect((await store.claim(request('x', { ...known, wait: true }))).granted).toBe(granted);
          }
          const claims = await store.read('x');
          expect(claims.map((claim) => claim.id)).toEqual(model.map((each) => each.id));
          expect(claims.filter((claim) => claim.granted)).toHaveLength(
            grantedCount(model.map((each) => each.mode)),
          );
        }
      }),
      { numRuns: 500 },
    );
  });
});
