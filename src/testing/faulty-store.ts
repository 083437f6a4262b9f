import { StoreError } from '../errors.ts';
import type { ClaimRef, Store } from '../store/store.ts';

/** The calls of a store that can be made to fail. */
export type StoreVerb = 'claim' | 'renew' | 'release' | 'evict' | 'watch' | 'read';

/** One call that reached a faulty store. */
export interface StoreCall {
  /** Counts from 1, over all verbs. */
  readonly n: number;
  readonly verb: StoreVerb;
  readonly name: string;
  readonly id: string | null;
}

/**
 * `refuse`: has no effect, and says so. `fail`: has no effect, but nobody knows. `lose`: has its effect, the reply is lost. `hang`: has its effect, and no
 * reply ever comes. `null`: goes well.
 */
export type Fault = 'refuse' | 'fail' | 'lose' | 'hang';

/** A store that fails on cue and remembers what it was asked. */
export interface FaultyStore extends Store {
  /** Every call so far. */
  readonly calls: readonly StoreCall[];
}

/** The plan that spoils the n-th call only. Run a test for every n to see that no call may fail unnoticed. */
export function nthCall(n: number, fault: Fault): (call: StoreCall) => Fault | null {
  return (call) => (call.n === n ? fault : null);
}

/** A store whose calls fail as the plan says. Wake-ups can be made to fail only by failing `watch`. */
export function faultyStore(store: Store, plan: (call: StoreCall) => Fault | null): FaultyStore {
  const calls: StoreCall[] = [];

  async function through<T>(
    verb: StoreVerb,
    ref: { name: string; id?: string | undefined },
    run: () => Promise<T>,
  ): Promise<T> {
    const call: StoreCall = { n: calls.length + 1, verb, name: ref.name, id: ref.id ?? null };
    calls.push(call);
    const fault = plan(call);
    if (fault === 'refuse') throw new StoreError(`${verb} was refused (fault)`, { applied: 'no' });
    if (fault === 'fail') throw new StoreError(`${verb} failed (fault)`, { applied: 'unknown' });
    const reply = await run();
    if (fault === 'lose')
      throw new StoreError(`the reply to ${verb} was lost (fault)`, { applied: 'unknown' });
    return fault === 'hang' ? await new Promise<never>(() => {}) : reply;
  }

  return {
    calls,
    traits: store.traits,
    claim: (request, signal) => through('claim', request, () => store.claim(request, signal)),
    renew: (ref, change, signal) => through('renew', ref, () => store.renew(ref, change, signal)),
    release: (ref: ClaimRef, signal) => through('release', ref, () => store.release(ref, signal)),
    evict: (ref: ClaimRef, signal) => through('evict', ref, () => store.evict(ref, signal)),
    watch: (target, wake) => through('watch', target, () => store.watch(target, wake)),
    read: (name, signal) => through('read', { name }, () => store.read(name, signal)),
    list: (prefix, signal) => store.list(prefix, signal),
    close: () => store.close(),
  };
}
