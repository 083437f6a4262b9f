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

let runs = 0;

it('the scripts do what the grant rule says, step by step', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      runs += 1;
      const name = `line-${runs}`;
      const line: Member[] = [];
      const modes = new Map<number, Mode>();
      const fences = new Map<string, bigint>();
      const known = new Set<string>();
      let last = 0n;
      for (const [index, each] of steps.entries()) {
        const store = stores[index % 2] as Store;
        const id = `who-${each.who}#run0000000${runs}.${each.who}`;
        const granted = (): boolean =>
          line.findIndex((member) => member.id === id) >= 0 &&
          line.findIndex((member) => member.id === id) < grantedCount(line.map((member) => member.mode));
        if (each.verb === 'claim') {
          // A claim that stands keeps the mode that it came with.
          const standing = line.some((member) => member.id === id);
          const wanted = standing ? (modes.get(each.who) ?? each.mode) : each.mode;
          modes.set(each.who, wanted);
          const expected = claimByRule(line, { id, mode: wanted }, each.wait);
          const request = {
            name,
            id,
            mode: wanted,
            ttlMs: 60_000,
            wait: each.wait,
            note: '',
            fenceAbove: 0n,
          };
          const outcome = await store.claim(request).catch((error: { code: string }) => error.code);
          if (typeof outcome === 'string') expect([outcome, expected]).toEqual(['MODE_MISMATCH', 'mismatch']);
          else expect(outcome.granted).toBe(expected === 'granted');
          if (typeof outcome === 'object' && outcome.granted) {
            expect(fences.get(id) ?? outcome.fence).toBe(outcome.fence);
            fences.set(id, outcome.fence);
          }
        } else if (each.verb === 'renew') {
          const { held } = await store.renew({ name, id }, { ttlMs: 60_000 });
          expect(held).toBe(granted());
        } else {
          const place = line.findIndex((member) => member.id === id);
          expect(await store[each.verb]({ name, id })).toBe(place >= 0);
          if (place >= 0) line.splice(place, 1);
          fences.delete(id);
        }
        const seen = await store.read(name);
        const count = grantedCount(line.map((member) => member.mode));
        const holders = new Set(line.slice(0, count).map((member) => member.id));
        expect(new Set(seen.filter((claim) => claim.granted).map((claim) => claim.id))).toEqual(holders);
        expect(seen.filter((claim) => !claim.granted).map((claim) => claim.id)).toEqual(
          line.slice(count).map((member) => member.id),
        );
        // Granted in the order of the line, so their fences rise in it.
        const given = line
          .slice(0, count)
          .map((member) => seen.find((claim) => claim.id === member.id)?.fence ?? 0n);
        expect([...given].sort((a, b) => (a < b ? -1 : 1))).toEqual(given);
        // And one that was not there before is greater than every one given before.
        for (const [at, fence] of given.entries()) {
          const member = line[at]?.id ?? '';
          if (!known.has(member)) expect(fence > last).toBe(true);
          known.add(member);
          if (fence > last) last = fence;
        }
        for (const member of [...known]) if (!holders.has(member)) known.delete(member);
      }
      for (const member of line) await stores[0]?.release({ name, id: member.id });
      // Nothing of it is left.
      expect(await client.keys(`*${name}`)).toEqual([]);
    }),
    { numRuns: 500 },
  );
}, 60_000);
