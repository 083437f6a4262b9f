import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { memoryStore } from '../../../src/index.ts';
import type { ClaimRequest, Mode, Store } from '../../../src/store/store.ts';

/**
 * The same steps on a store and on the memory store, which follows the rule to the letter, must
 * look the same after each.
 */
type Step =
  | { readonly kind: 'claim'; readonly who: number; readonly mode: Mode; readonly wait: boolean }
  | { readonly kind: 'release' | 'renew' | 'ask' | 'evict'; readonly who: number };

const WHO = fc.nat({ max: 5 });
const steps = (mode: fc.Arbitrary<Mode>): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.oneof(
      {
        weight: 5,
        arbitrary: fc.record({ kind: fc.constant('claim' as const), who: WHO, mode, wait: fc.boolean() }),
      },
      {
        weight: 4,
        arbitrary: fc.record({
          kind: fc.constantFrom('release' as const, 'renew', 'ask', 'evict'),
          who: WHO,
        }),
      },
    ),
    { minLength: 4, maxLength: 25 },
  );

const READ_WRITE = fc.constantFrom<Mode>({ kind: 'exclusive' }, { kind: 'shared' });
const PERMITS = fc.integer({ min: 1, max: 4 }).map((count): Mode => ({ kind: 'permits', count, of: 4 }));
const MIXED = fc.oneof(READ_WRITE, PERMITS, fc.constant<Mode>({ kind: 'permits', count: 1, of: 3 }));

let run = 0;

/** The outcome of a call, in words that do not depend on the store. */
async function outcome(work: Promise<unknown>): Promise<unknown> {
  try {
    const result = await work;
    if (typeof result === 'boolean') return result;
    const { granted, held } = result as { granted?: boolean; held?: boolean };
    return granted ?? held;
  } catch (error) {
    return (error as { code?: unknown }).code;
  }
}

async function take(
  step: Step,
  store: Store,
  claims: Map<number, ClaimRequest>,
  name: string,
): Promise<unknown> {
  const known = claims.get(step.who);
  const fresh = { name, id: `who#${step.who}`, ttlMs: 60_000, note: '', fenceAbove: 0n } as const;
  if (step.kind === 'claim') {
    const request = known ?? { ...fresh, mode: step.mode, wait: step.wait };
    const result = await outcome(store.claim(request));
    if (result === true || (result === false && request.wait)) claims.set(step.who, request);
    return result;
  }
  if (step.kind === 'ask') return known === undefined ? null : await outcome(store.claim(known));
  if (step.kind === 'renew') return await outcome(store.renew(known ?? fresh, { ttlMs: 60_000 }));
  claims.delete(step.who);
  return await outcome(step.kind === 'release' ? store.release(known ?? fresh) : store.evict(known ?? fresh));
}

async function line(store: Store, name: string): Promise<unknown[]> {
  return (await store.read(name)).map(({ id, granted, mode }) => ({ id, granted, mode }));
}

async function compare(stores: readonly [Store, Store], all: readonly Step[]): Promise<void> {
  const memory = memoryStore();
  const name = `rule-${run++}`;
  const [theirs, ours] = [new Map<number, ClaimRequest>(), new Map<number, ClaimRequest>()];
  for (const [n, step] of all.entries()) {
    // Each claimant uses its own connection; an eviction uses the other one.
    const mine = (step.who + (step.kind === 'evict' ? 1 : 0)) % 2;
    const [expected, actual] = [
      await take(step, memory, theirs, name),
      await take(step, stores[mine] ?? stores[0], ours, name),
    ];
    expect(actual, `step ${n}: ${JSON.stringify(step)}`).toEqual(expected);
    expect(await line(stores[0], name), `line after step ${n}: ${JSON.stringify(step)}`).toEqual(
      await line(memory, name),
    );
  }
  for (const request of ours.values()) await stores[0].evict(request);
}

/** `stores`: two connections to the same data, as two processes have them. */
export function describeRule(name: string, stores: () => readonly [Store, Store], numRuns = 60): void {
  describe(`${name} follows the grant rule`, () => {
    it.each([
      ['readers and writers', READ_WRITE],
      ['permits', PERMITS],
      ['kinds that disagree', MIXED],
    ])('step by step: %s', { timeout: 180_000 }, async (_what, mode) => {
      await fc.assert(
        fc.asyncProperty(steps(mode), (all) => compare(stores(), all)),
        { numRuns },
      );
    });
  });
}
