import fc from 'fast-check';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { agree, grantedCount } from '../../src/store/grant-rule.ts';
import type { Mode, Store } from '../../src/store/store.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { startRedis } from '../support/servers/redis.ts';
import type { Server } from '../support/servers/server.ts';

let server: Server;
let client: Redis;
let stores: Store[];
beforeAll(async () => {
  server = await startRedis();
  client = new Redis(server.url);
  stores = [redisStore(client), redisStore(client)];
});
afterAll(async () => {
  await Promise.all(stores.map((store) => store.close()));
  client.disconnect();
  await server.stop();
});

/** The line as the rule has it: who stands in it, in order. */
interface Member {
  readonly id: string;
  readonly mode: Mode;
}

/** What the rule says of a claim: granted, waiting or refused. */
function claimByRule(
  line: Member[],
  member: Member,
  wait: boolean,
): 'granted' | 'waiting' | 'refused' | 'mismatch' {
  const standing = line.find(({ id }) => id === member.id);
  const [first] = line;
  if (standing === undefined && first !== undefined && !agree(first.mode, member.mode)) return 'mismatch';
  const after = standing === undefined ? [...line, member] : line;
  const place = after.findIndex(({ id }) => id === member.id);
  const isGranted = place < grantedCount(after.map(({ mode }) => mode));
  if (!isGranted && !wait && standing === undefined) return 'refused';
  if (standing === undefined) line.push(member);
  return isGranted ? 'granted' : 'waiting';
}

const mode: fc.Arbitrary<Mode> = fc.oneof(
  fc.constant<Mode>({ kind: 'exclusive' }),
  fc.constant<Mode>({ kind: 'shared' }),
  fc.integer({ min: 1, max: 3 }).map((count): Mode => ({ kind: 'permits', count, of: 3 })),
);
const step = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({ verb: fc.constant('claim' as const), who: fc.nat(5), mode, wait: fc.boolean() }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ verb: fc.constantFrom('release' as const, 'evict' as const), who: fc.nat(5) }),
  },
  { weight: 1, arbitrary: fc.record({ verb: fc.constant('renew' as const), who: fc.nat(5) }) },
);

type Step = typeof step extends fc.Arbitrary<infer S> ? S : never;

/** One lock, as the rule has it and as the store has it, side by side. */
class Twin {
  readonly name: string;
  readonly #run: number;
  readonly #line: Member[] = [];
  readonly #fences = new Map<string, bigint>();
  #last = 0n;

  constructor(run: number) {
    this.#run = run;
    this.name = `line-${run}`;
  }

  get #granted(): Member[] {
    return this.#line.slice(0, grantedCount(this.#line.map(({ mode }) => mode)));
  }

  async take(each: Step, store: Store): Promise<void> {
    const id = `who-${each.who}#run0000000${this.#run}.${each.who}`;
    if (each.verb === 'claim') await this.#claim(store, id, each.mode, each.wait);
    else if (each.verb === 'renew') {
      const { held } = await store.renew({ name: this.name, id }, { ttlMs: 60_000 });
      expect(held).toBe(this.#granted.some((member) => member.id === id));
    } else {
      const place = this.#line.findIndex((member) => member.id === id);
      expect(await store[each.verb]({ name: this.name, id })).toBe(place >= 0);
      if (place >= 0) this.#line.splice(place, 1);
      this.#fences.delete(id);
    }
    await this.#compare(store);
  }

  async #claim(store: Store, id: string, wanted: Mode, wait: boolean): Promise<void> {
    // A claim that stands keeps the mode that it came with.
    const mode = this.#line.find((member) => member.id === id)?.mode ?? wanted;
    const expected = claimByRule(this.#line, { id, mode }, wait);
    const request = { name: this.name, id, mode, ttlMs: 60_000, wait, note: '', fenceAbove: 0n };
    const outcome = await store.claim(request).catch((error: { code: string }) => error.code);
    if (typeof outcome === 'string') expect([outcome, expected]).toEqual(['MODE_MISMATCH', 'mismatch']);
    else expect(outcome.granted).toBe(expected === 'granted');
    if (typeof outcome === 'object' && outcome.granted)
      expect(this.#fences.get(id) ?? outcome.fence).toBe(outcome.fence);
  }

  async #compare(store: Store): Promise<void> {
    const seen = await store.read(this.name);
    const granted = this.#granted.map(({ id }) => id);
    const ids = (claims: typeof seen): string[] => claims.map(({ id }) => id);
    // Granted in the order of the line, so their fences rise in it, and those who wait stand behind them in order.
    expect(ids(seen.filter((claim) => claim.granted))).toEqual(granted);
    expect(ids(seen.filter((claim) => !claim.granted))).toEqual(
      this.#line.slice(granted.length).map(({ id }) => id),
    );
    for (const { id, fence } of seen) {
      if (fence === null || this.#fences.has(id)) continue;
      expect(fence > this.#last).toBe(true);
      this.#fences.set(id, fence);
      this.#last = fence;
    }
  }

  async end(store: Store): Promise<void> {
    for (const { id } of this.#line) await store.release({ name: this.name, id });
  }
}

let runs = 0;

it('the scripts do what the grant rule says, step by step', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      runs += 1;
      const twin = new Twin(runs);
      for (const [index, each] of steps.entries()) await twin.take(each, stores[index % 2] as Store);
      await twin.end(stores[0] as Store);
      // Nothing of it is left.
      expect(await client.keys(`*${twin.name}`)).toEqual([]);
    }),
    { numRuns: 500 },
  );
}, 60_000);
