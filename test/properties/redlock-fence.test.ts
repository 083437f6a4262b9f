import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/errors.ts';
import type { ClaimRef } from '../../src/store/store.ts';
import type { NodeVote, RedlockNode, VoteRequest } from '../../src/stores/redlock/node.ts';
import { RedlockStore } from '../../src/stores/redlock/redlock-store.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { SeededRandom } from '../../src/testing/simulation/seeded-random.ts';
import { request } from '../../src/testing/store-case.ts';
import { maxOfTheVotes } from '../redlock/support/forwarding.ts';

/** A model of `scripts/vote.lua` and `scripts/merge.lua` whose leases end when the schedule says so. */
class ModelNode {
  counter: bigint;
  readonly holders = new Map<string, { id: string; fence: bigint }>();

  constructor(counter: bigint) {
    this.counter = counter;
  }

  vote({ name, id, proposed }: VoteRequest): NodeVote {
    const holder = this.holders.get(name);
    if (holder?.id === id) return { granted: true, fence: holder.fence, isKept: true };
    if (holder !== undefined) return { granted: false, endsMs: null, holder: holder.id, isForeign: false };
    this.counter = proposed > this.counter ? proposed : this.counter + 1n;
    this.holders.set(name, { id, fence: this.counter });
    return { granted: true, fence: this.counter, isKept: false };
  }

  merge({ name, id }: ClaimRef, fence: bigint): bigint | null {
    const holder = this.holders.get(name);
    if (holder?.id !== id) return null;
    if (fence > holder.fence) holder.fence = fence;
    if (fence > this.counter) this.counter = fence;
    return holder.fence;
  }

  remove({ name, id }: ClaimRef): boolean {
    return this.holders.get(name)?.id === id && this.holders.delete(name);
  }
}

/** Commands in transit, delivered in any order that keeps the order of each connection. */
class Network {
  readonly #connections: Array<Array<() => void>> = [];

  connect(model: ModelNode, label: string): RedlockNode {
    const pending: Array<() => void> = [];
    this.#connections.push(pending);
    const send = <T>(work: () => T): Promise<T> =>
      new Promise((resolve) => {
        pending.push(() => {
          const answer = work();
          pending.push(() => resolve(answer));
        });
      });
    const unused = (): never => {
      throw new StoreError('not part of this model', { applied: 'no' });
    };
    return {
      label,
      serverId: label,
      vote: (request) => send(() => model.vote(request)),
      merge: (claim, fence) => send(() => model.merge(claim, fence)),
      withdraw: (claim) => send(() => model.remove(claim)),
      release: (claim) => send(() => model.remove(claim)),
      renew: unused,
      evict: unused,
      watch: unused,
      read: unused,
      list: unused,
      reach: unused,
      close: async () => {},
    };
  }

  /** False when nothing is in transit. */
  deliverOne(dice: SeededRandom): boolean {
    const busy = this.#connections.filter((pending) => pending.length > 0);
    if (busy.length === 0) return false;
    dice.pick(busy).shift()?.();
    return true;
  }
}

/** One process: it claims, and releases what it is granted some time later. */
class Client {
  readonly #store: RedlockStore;
  readonly #fences: bigint[];
  readonly #number: number;
  #held: ClaimRef | null = null;
  #isBusy = false;
  #claims = 0;
  broken = 0;

  constructor(number: number, store: RedlockStore, fences: bigint[]) {
    this.#number = number;
    this.#store = store;
    this.#fences = fences;
  }

  act(): void {
    if (this.#isBusy) return;
    this.#isBusy = true;
    const held = this.#held;
    const work = held === null ? this.#claim() : this.#store.release(held);
    this.#held = null;
    work
      .catch(() => {})
      .finally(() => {
        this.#isBusy = false;
      });
  }

  async #claim(): Promise<void> {
    const before = [...this.#fences];
    const ref = { name: 'x', id: `c#00000000000${this.#number}.${this.#claims++}` };
    const outcome = await this.#store.claim(request(ref.name, { id: ref.id, ttlMs: 30_000 }));
    if (!outcome.granted) return;
    const { fence } = outcome;
    if (before.some((earlier) => earlier >= fence) || this.#fences.includes(fence)) this.broken += 1;
    this.#fences.push(fence);
    this.#held = ref;
  }
}

const START_MS = Date.UTC(2026, 0, 1);

/** Plays one schedule. Counts the holds, and those whose fence is not above that of every other hold. */
async function play(seed: number, change: (node: RedlockNode) => RedlockNode) {
  const dice = new SeededRandom(seed);
  const models = Array.from({ length: dice.pick([3, 4, 5]) }, () => {
    return new ModelNode(BigInt(START_MS) * 1000n + BigInt(dice.below(20)));
  });
  const network = new Network();
  const fences: bigint[] = [];
  const clients = [1, 2, 3].map((number) => {
    const clock = virtualClock({ seed: seed + number, wallMs: START_MS + dice.below(3) - 1 });
    const nodes = models.map((model, index) => change(network.connect(model, `node ${index}`)));
    return new Client(number, new RedlockStore(nodes, { clock, drift: 0.01 }), fences);
  });
  for (let step = 0; step < 250; step += 1) {
    const roll = dice.roll();
    if (roll < 0.04) dice.pick(models).holders.clear();
    else if (roll < 0.2) dice.pick(clients).act();
    else network.deliverOne(dice);
    // The effects of an answer are sent before the next step.
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { holds: fences.length, broken: clients.reduce((sum, client) => sum + client.broken, 0) };
}

async function playMany(schedules: number, change: (node: RedlockNode) => RedlockNode) {
  const total = { holds: 0, broken: 0 };
  for (let seed = 1; seed <= schedules; seed += 1) {
    const { holds, broken } = await play(seed, change);
    total.holds += holds;
    total.broken += broken;
  }
  return total;
}

describe('fences of a quorum, over random schedules of early ends and late messages', () => {
  it('are unique, and greater than those of every hold before', async () => {
    const { holds, broken } = await playMany(2_000, (node) => node);
    expect(holds).toBeGreaterThan(5_000);
    expect(broken).toBe(0);
  });

  it('would not be if the fence were the greatest of the votes', async () => {
    const { holds, broken } = await playMany(100, maxOfTheVotes);
    expect(broken).toBeGreaterThan(holds / 50);
  });
});
