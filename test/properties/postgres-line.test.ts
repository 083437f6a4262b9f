import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { agree, grantedCount } from '../../src/store/grant-rule.ts';
import type { Mode, Store } from '../../src/store/store.ts';
import { LeaseStage } from '../postgres/support/lease-stage.ts';

let stage: LeaseStage;
let stores: Store[];
beforeAll(async () => {
  stage = await LeaseStage.start();
  stores = [stage.store(), stage.store()];
  await stores[0]?.read('makes the tables');
});
afterAll(() => stage[Symbol.asyncDispose]());

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
const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ verb: fc.constant('claim' as const), who, mode, wait: fc.boolean() }) },
  {
    weight: 3,
    arbitrary: fc.record({
      verb: fc.constantFrom('release' as const, 'evict' as const, 'lapse' as const),
      who,
    }),
  },
  { weight: 1, arbitrary: fc.record({ verb: fc.constant('renew' as const), who }) },
);
type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** One lock, as the rule has it and as the SQL has it, side by side. */
class Twin {
  readonly #name: string;
  readonly #run: number;
  readonly #line: Member[] = [];
  readonly #fences = new Map<string, bigint>();
  #last = 0n;

  constructor(run: number) {
    this.#run = run;
    this.#name = `line-${run}`;
  }

  get #granted(): readonly Member[] {
    return this.#line.slice(0, grantedCount(this.#line.map((member) => member.mode)));
  }

  async take(each: Step, store: Store): Promise<void> {
    const id = `who-${each.who}#run0000000${this.#run}.${each.who}`;
    const name = this.#name;
    if (each.verb === 'claim') await this.#claim(store, id, each.mode, each.wait);
    else if (each.verb === 'renew') {
      const { held } = await store.renew({ name, id }, { ttlMs: 60_000 });
      expect(held).toBe(this.#granted.some((member) => member.id === id));
    } else {
      const place = this.#line.findIndex((member) => member.id === id);
      if (each.verb === 'lapse') await this.#lapse(id);
      else expect(await store[each.verb]({ name, id })).toBe(place >= 0);
      if (place >= 0) this.#line.splice(place, 1);
      this.#fences.delete(id);
    }
    await this.#settle(store);
    await this.#compare(store);
  }

  async #claim(store: Store, id: string, wanted: Mode, wait: boolean): Promise<void> {
    const standing = this.#line.find((member) => member.id === id);
    const member = standing ?? { id, mode: wanted };
    const [first] = this.#line;
    const isMismatch = standing === undefined && first !== undefined && !agree(first.mode, member.mode);
    const after = standing === undefined ? [...this.#line, member] : this.#line;
    const isGranted = after.indexOf(member) < grantedCount(after.map((each) => each.mode));
    const outcome = await this.#ask(store, member, wait);
    if (isMismatch) expect(outcome).toBe('MODE_MISMATCH');
    else expect(outcome).toBe(isGranted);
    if (!isMismatch && standing === undefined && (isGranted || wait)) this.#line.push(member);
  }

  async #ask(store: Store, { id, mode }: Member, wait: boolean): Promise<boolean | string> {
    const request = { name: this.#name, id, mode, ttlMs: 60_000, wait, note: '', fenceAbove: 0n };
    const outcome = await store.claim(request).catch((error: { code: string }) => error.code);
    return typeof outcome === 'string' ? outcome : outcome.granted;
  }

  /** Its time runs out, whether it holds or waits. */
  async #lapse(id: string): Promise<void> {
    const past = "clock_timestamp() - interval '1 second'";
    const values = [this.#name, id];
    await stage.query(
      `UPDATE holdfast.locks SET expires_at = ${past} WHERE name = $1 AND holder = $2`,
      values,
    );
    for (const table of ['shares', 'places'])
      await stage.query(
        `UPDATE holdfast.${table} SET expires_at = ${past} WHERE name = $1 AND id = $2`,
        values,
      );
    await stage.query("UPDATE holdfast.locks SET ends_at = '-infinity' WHERE name = $1", [this.#name]);
  }

  /** Everybody asks again, all in one tick: whom the rule grants is granted, and nobody else. */
  async #settle(store: Store): Promise<void> {
    const outcomes = await Promise.all(this.#line.map((member) => this.#ask(store, member, true)));
    expect(outcomes).toEqual(this.#line.map((member) => this.#granted.includes(member)));
  }

  async #compare(store: Store): Promise<void> {
    const seen = await store.read(this.#name);
    const granted = this.#granted.map(({ id }) => id);
    expect(seen.filter((claim) => claim.granted).map(({ id }) => id)).toEqual(granted);
    expect(seen.filter((claim) => !claim.granted).map(({ id }) => id)).toEqual(
      this.#line.slice(granted.length).map(({ id }) => id),
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
    for (const { id } of this.#line) await store.release({ name: this.#name, id });
    await stage.query('SELECT holdfast.prune(0)');
    const parts = ['locks', 'shares', 'places'].map(
      (table) => `SELECT name FROM holdfast.${table} WHERE name = $1`,
    );
    expect(await stage.query(parts.join(' UNION ALL '), [this.#name])).toEqual([]);
  }
}

let runs = 0;

it('the SQL functions do what the grant rule says, step by step', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      runs += 1;
      const twin = new Twin(runs);
      for (const [index, each] of steps.entries()) await twin.take(each, stores[index % 2] as Store);
      await twin.end(stores[0] as Store);
    }),
    { numRuns: 400 },
  );
}, 90_000);
