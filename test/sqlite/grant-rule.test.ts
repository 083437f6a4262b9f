import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { Mode, Store } from '../../src/index.ts';
import { grantedCount } from '../../src/store/grant-rule.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { virtualClock } from '../../src/testing/index.ts';

interface Step {
  readonly verb: 'ask' | 'try' | 'release';
  readonly id: number;
}

interface Standing {
  readonly id: string;
  readonly mode: Mode;
}

/** The grant rule: a queue in order of arrival, of which the front that fits is granted. */
class Model {
  queue: Standing[] = [];

  isGranted(id: string): boolean {
    const position = this.queue.findIndex((claim) => claim.id === id);
    return position >= 0 && position < grantedCount(this.queue.map(({ mode }) => mode));
  }

  ask(claim: Standing, wait: boolean): boolean {
    const isNew = !this.queue.some(({ id }) => id === claim.id);
    if (isNew) this.queue.push(claim);
    const granted = this.isGranted(claim.id);
    if (isNew && !granted && !wait) this.release(claim.id);
    return granted;
  }

  release(id: string): boolean {
    const before = this.queue.length;
    this.queue = this.queue.filter((claim) => claim.id !== id);
    return this.queue.length < before;
  }
}

const steps = fc.array(
  fc.record({
    verb: fc.constantFrom<Step['verb']>('ask', 'ask', 'try', 'release'),
    id: fc.integer({ min: 0, max: 7 }),
  }),
  { maxLength: 40 },
);

/** Each claim keeps its mode, as each of a program's does. */
async function agrees(modes: readonly Mode[], path: readonly Step[]): Promise<void> {
  const store: Store = sqliteStore(':memory:', { clock: virtualClock() });
  const model = new Model();
  const fences: bigint[] = [];
  for (const { verb, id } of path) {
    const claim = { id: `claim ${id}`, mode: modes[id] ?? { kind: 'exclusive' } };
    if (verb === 'release') {
      expect(await store.release({ name: 'x', id: claim.id })).toBe(model.release(claim.id));
      continue;
    }
    const held = (await store.read('x')).some((each) => each.granted && each.id === claim.id);
    const outcome = await store.claim({
      ...claim,
      name: 'x',
      ttlMs: 60_000,
      wait: verb === 'ask',
      note: '',
      fenceAbove: 0n,
    });
    expect(outcome.granted).toBe(model.ask(claim, verb === 'ask'));
    if (outcome.granted && !held) fences.push(outcome.fence);
  }
  expect(fences).toEqual([...new Set(fences)].sort((a, b) => (a < b ? -1 : 1)));
  await store.close();
}

it('grants what the rule grants: readers and writers', async () => {
  const modes = fc.array(
    fc.constantFrom<Mode>({ kind: 'exclusive' }, { kind: 'shared' }, { kind: 'shared' }),
    { minLength: 8, maxLength: 8 },
  );
  await fc.assert(fc.asyncProperty(modes, steps, agrees), { numRuns: 300 });
});

it('grants what the rule grants: permits', async () => {
  const permits = fc.integer({ min: 1, max: 4 }).map((count): Mode => ({ kind: 'permits', count, of: 4 }));
  await fc.assert(fc.asyncProperty(fc.array(permits, { minLength: 8, maxLength: 8 }), steps, agrees), {
    numRuns: 300,
  });
});
