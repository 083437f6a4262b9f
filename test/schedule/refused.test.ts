import { describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import { schedule } from '../../src/schedule/index.ts';
import type {
  ClaimOutcome,
  ClaimRequest,
  Store,
  StoredClaim,
  Traits,
  Waiter,
} from '../../src/store/store.ts';
import { WrappedStore } from '../../src/store/wrapped-store.ts';
import { faultyStore, type StoreCall } from '../../src/testing/index.ts';
import { slotIn } from '../../src/use.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { outcomeOf } from '../support/memory/world.ts';
import { at, EVERY_MINUTE, MINUTE_MS, makeWorld } from './support/world.ts';

/** Refuses the first claims of a lock although no process holds it, as split votes of nodes do. */
class SplitVotes extends WrappedStore {
  override readonly traits: Traits;
  readonly #isMeant: (name: string) => boolean;
  readonly #refusals = new Map<string, number>();

  constructor(store: Store, isMeant: (name: string) => boolean) {
    super(store);
    this.traits = { ...store.traits, ordered: false };
    this.#isMeant = isMeant;
  }

  override claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const refusals = this.#refusals.get(request.name) ?? 0;
    if (!this.#isMeant(request.name) || refusals === 3) return super.claim(request, signal, waiter);
    this.#refusals.set(request.name, refusals + 1);
    return Promise.resolve({ granted: false, retryAfterMs: null });
  }
}

const isSlot = (name: string): boolean => slotIn(name) !== null;

describe('a claim that is refused although no process holds it', () => {
  it.each([
    ['of the slot, with skip', 'skip', isSlot],
    ['of the run, with skip', 'skip', (name: string) => !isSlot(name)],
    ['of the slot, with once', 'once', isSlot],
    ['of the run, with once', 'once', (name: string) => !isSlot(name)],
  ] as const)('%s, is sent again: the slot is run', async (_, missed, isMeant) => {
    const { clock, store, slots, job } = makeWorld();
    const own = (): Locks => createLocks(new SplitVotes(connectionTo(store), isMeant), { clock });
    const jobs = [job(own(), { missed }), job(own(), { missed })];
    await clock.advance(2 * MINUTE_MS);
    expect(slots()).toEqual((missed === 'once' ? [0, 1, 2] : [1, 2]).map(at));
    await Promise.all(jobs.map((each) => each.stop()));
  });

  it('does not make runNow answer false', async () => {
    const { clock, store, job } = makeWorld();
    const own = job(createLocks(new SplitVotes(connectionTo(store), () => true), { clock }));
    const ran = outcomeOf(own.runNow());
    await clock.advance(5_000);
    expect(ran.value).toBe(true);
    await own.stop();
  });
});

it('with skip, a slot that was taken is run although the store fails once before its run', async () => {
  const { clock, store, slots, job } = makeWorld();
  let failures = 0;
  const plan = ({ verb, name }: StoreCall): 'lose' | null => {
    const isMeant = verb === 'claim' && !isSlot(name) && failures === 0;
    if (isMeant) failures += 1;
    return isMeant ? 'lose' : null;
  };
  const own = job(createLocks(faultyStore(connectionTo(store), plan), { clock }));
  await clock.advance(50_000);
  expect([slots(), failures]).toEqual([[at(1)], 1]);
  await own.stop();
});

it('a process that does not run a slot sends at most two commands for it', async () => {
  const { clock, store, job } = makeWorld();
  const sent = [0, 1, 2].map((n) => {
    const verbs: string[] = [];
    const count = ({ verb }: StoreCall): null => {
      verbs.push(verb);
      return null;
    };
    return { verbs, own: job(createLocks(faultyStore(connectionTo(store), count), { clock }), {}, 5_000), n };
  });
  await clock.advance(34_000);
  expect(sent.map(({ verbs }) => verbs.join(' ')).sort()).toEqual([
    'claim claim',
    'claim read',
    'claim read',
  ]);
  await clock.advance(5_000);
  await Promise.all(sent.map(({ own }) => own.stop()));
});

describe('runNow', () => {
  it('waits while processes that queued for a finished slot find out that it is done', async () => {
    const { clock, store, runs, locks, job } = makeWorld();
    // Each of the waiters has the claim for a while.
    class SlowReads extends WrappedStore {
      override async read(name: string): Promise<readonly StoredClaim[]> {
        await clock.sleep(100);
        return await super.read(name);
      }
    }
    const slow = (): Locks => createLocks(new SlowReads(connectionTo(store)), { clock });
    const first = job(locks(), { missed: 'once' }, 5_000);
    await clock.advance(1_000);
    const waiters = [1, 2, 3].map(() => job(slow(), { missed: 'once' }));
    const extra = schedule(locks(), 'job', EVERY_MINUTE, () => {}, { missed: 'skip' });
    await clock.advance(4_050);
    const ran = outcomeOf(extra.runNow());
    await clock.advance(3_000);
    expect([runs.length, ran.value]).toEqual([1, true]);
    await Promise.all([first, extra, ...waiters].map((each) => each.stop()));
  });

  it('answers false while one of them runs a later slot', async () => {
    const { clock, runs, locks, job } = makeWorld();
    const jobs = [0, 10].map((shiftMs) => job(locks(shiftMs), { missed: 'once' }, 50_000));
    // The run of minute 0 ends after minute 1 has begun, and the other process makes up for that.
    await clock.advance(55_000);
    expect(runs.map(({ slot }) => slot)).toEqual([at(0), at(1)]);
    const ran = outcomeOf(jobs[0]?.runNow() ?? Promise.resolve(null));
    await clock.advance(1);
    expect(ran.value).toBe(false);
    const stopping = jobs.map((each) => each.stop());
    await clock.advance(MINUTE_MS);
    await Promise.all(stopping);
  });
});
