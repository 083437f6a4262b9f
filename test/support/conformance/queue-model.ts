import fc from 'fast-check';
import { expect } from 'vitest';
import { agree, grantedCount } from '../../../src/store/grant-rule.ts';
import type { Mode, Store } from '../../../src/store/store.ts';

interface Member {
  readonly id: string;
  readonly mode: Mode;
}

const mode: fc.Arbitrary<Mode> = fc.oneof(
  fc.constant<Mode>({ kind: 'exclusive' }),
  fc.constant<Mode>({ kind: 'shared' }),
  fc.integer({ min: 1, max: 3 }).map((count): Mode => ({ kind: 'permits', count, of: 3 })),
);
const who = fc.nat(5);
const ending = (...verbs: ('release' | 'evict' | 'expire')[]) =>
  fc.record({ verb: fc.constantFrom(...verbs), who });

const stepsWith = (endings: ReturnType<typeof ending>) =>
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.record({ verb: fc.constant('claim' as const), who, mode, wait: fc.boolean() }),
    },
    { weight: 3, arbitrary: endings },
    { weight: 1, arbitrary: fc.record({ verb: fc.constant('renew' as const), who }) },
  );
type Step = ReturnType<typeof stepsWith> extends fc.Arbitrary<infer S> ? S : never;

interface Subject {
  /** Two connections to the same data, as two processes have them. */
  readonly stores: readonly Store[];
  readonly numRuns: number;
  /** Ends the time of a claim on the server. Unless set, no claim expires. */
  expire?(name: string, id: string): Promise<void>;
  /** Nothing of a lock is left once all its claims are released. */
  expectEmpty(name: string): Promise<void>;
}

/** Random steps on one lock of a store, which after each must be as the grant rule says. */
export async function expectGrantRule(subject: Subject): Promise<void> {
  let runs = 0;
  const endings = ['release', 'evict', ...(subject.expire === undefined ? [] : ['expire' as const])] as const;
  await fc.assert(
    fc.asyncProperty(fc.array(stepsWith(ending(...endings)), { maxLength: 30 }), async (steps) => {
      runs += 1;
      const model = new QueueModel(subject, runs);
      for (const [index, each] of steps.entries()) await model.take(each, storeOf(subject, index));
      await model.end(storeOf(subject, 0));
    }),
    { numRuns: subject.numRuns },
  );
}

function storeOf({ stores }: Subject, index: number): Store {
  const store = stores[index % stores.length];
  if (store === undefined) throw new Error('no store');
  return store;
}

/** One lock, as the rule has it and as the store has it, side by side. */
class QueueModel {
  readonly #subject: Subject;
  readonly #name: string;
  readonly #run: number;
  readonly #queue: Member[] = [];
  readonly #fences = new Map<string, bigint>();
  #last = 0n;

  constructor(subject: Subject, run: number) {
    this.#subject = subject;
    this.#run = run;
    this.#name = `queue-${run}`;
  }

  get #granted(): readonly Member[] {
    return this.#queue.slice(0, grantedCount(this.#queue.map((member) => member.mode)));
  }

  async take(each: Step, store: Store): Promise<void> {
    const id = `who-${each.who}#run0000000${this.#run}.${each.who}`;
    const ref = { name: this.#name, id };
    if (each.verb === 'claim') await this.#claim(store, id, each.mode, each.wait);
    else if (each.verb === 'renew') {
      const { held } = await store.renew(ref, { ttlMs: 60_000 });
      expect(held).toBe(this.#granted.some((member) => member.id === id));
    } else {
      const position = this.#queue.findIndex((member) => member.id === id);
      if (each.verb === 'expire') await this.#subject.expire?.(this.#name, id);
      else expect(await store[each.verb](ref)).toBe(position >= 0);
      if (position >= 0) this.#queue.splice(position, 1);
      this.#fences.delete(id);
    }
    // A server learns of an expired claim when the next waiter asks.
    if (this.#subject.expire === undefined) await this.#compare(store);
    await this.#askAgain(store);
    await this.#compare(store);
  }

  async #claim(store: Store, id: string, wanted: Mode, wait: boolean): Promise<void> {
    // A claim that stands keeps the mode that it came with.
    const standing = this.#queue.find((member) => member.id === id);
    const member = standing ?? { id, mode: wanted };
    const [first] = this.#queue;
    const isMismatch = standing === undefined && first !== undefined && !agree(first.mode, member.mode);
    const after = standing === undefined ? [...this.#queue, member] : this.#queue;
    const isGranted = after.indexOf(member) < grantedCount(after.map((each) => each.mode));
    expect(await this.#ask(store, member, wait)).toBe(isMismatch ? 'MODE_MISMATCH' : isGranted);
    if (!isMismatch && standing === undefined && (isGranted || wait)) this.#queue.push(member);
  }

  async #ask(store: Store, { id, mode }: Member, wait: boolean): Promise<boolean | string> {
    const request = { name: this.#name, id, mode, ttlMs: 60_000, wait, note: '', fenceAbove: 0n };
    const outcome = await store.claim(request).catch((error: { code: string }) => error.code);
    if (typeof outcome === 'string') return outcome;
    if (outcome.granted) expect(this.#fences.get(id) ?? outcome.fence).toBe(outcome.fence);
    return outcome.granted;
  }

  /** Every claim is sent again in one tick: those that the rule grants are granted, and no others. */
  async #askAgain(store: Store): Promise<void> {
    const outcomes = await Promise.all(this.#queue.map((member) => this.#ask(store, member, true)));
    expect(outcomes).toEqual(this.#queue.map((member) => this.#granted.includes(member)));
  }

  /** Claims are granted in queue order, so their fences rise in it; waiters follow in queue order. */
  async #compare(store: Store): Promise<void> {
    const seen = await store.read(this.#name);
    const granted = this.#granted.map(({ id }) => id);
    expect(seen.filter((claim) => claim.granted).map(({ id }) => id)).toEqual(granted);
    expect(seen.filter((claim) => !claim.granted).map(({ id }) => id)).toEqual(
      this.#queue.slice(granted.length).map(({ id }) => id),
    );
    for (const { id, fence } of seen) {
      if (fence === null) continue;
      const known = this.#fences.get(id);
      if (known !== undefined) expect(fence).toBe(known);
      else expect(fence > this.#last).toBe(true);
      this.#fences.set(id, fence);
      if (fence > this.#last) this.#last = fence;
    }
  }

  async end(store: Store): Promise<void> {
    for (const { id } of this.#queue) await store.release({ name: this.#name, id });
    await this.#subject.expectEmpty(this.#name);
  }
}
