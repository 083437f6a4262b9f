import { StoreError } from '../errors.ts';
import { CONNECT_NAME } from '../store/first-answer.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Waiter,
  WatchTarget,
} from '../store/store.ts';
import { WrappedStore } from '../store/wrapped-store.ts';

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
 * `refuse`: has no effect, and says so. `fail`: has no effect, but the caller cannot know.
 * `lose`: has its effect, the reply is lost. `hang`: has its effect, and no reply ever comes.
 * `null`: succeeds.
 */
export type Fault = 'refuse' | 'fail' | 'lose' | 'hang';

/** A store that fails on request and records its calls. */
export interface FaultyStore extends Store {
  /** Every call so far. */
  readonly calls: readonly StoreCall[];
}

/** A plan in which only the n-th call fails. Run a test for every n: each call may fail. */
export function nthCall(n: number, fault: Fault): (call: StoreCall) => Fault | null {
  return (call) => (call.n === n ? fault : null);
}

/** A store whose calls fail as the plan says. Wake-ups can be made to fail only by failing `watch`. */
export function faultyStore(store: Store, plan: (call: StoreCall) => Fault | null): FaultyStore {
  return new PlannedStore(store, plan);
}

class PlannedStore extends WrappedStore implements FaultyStore {
  readonly calls: StoreCall[] = [];
  readonly #plan: (call: StoreCall) => Fault | null;

  constructor(store: Store, plan: (call: StoreCall) => Fault | null) {
    super(store);
    this.#plan = plan;
  }

  /** A read, so that the plan decides. */
  override async connect(signal: AbortSignal): Promise<void> {
    await this.read(CONNECT_NAME, signal);
  }

  override claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    return this.#through('claim', request, () => super.claim(request, signal, waiter));
  }

  override renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    return this.#through('renew', claim, () => super.renew(claim, change, signal));
  }

  override release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#through('release', claim, () => super.release(claim, signal));
  }

  override evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#through('evict', claim, () => super.evict(claim, signal));
  }

  override watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    return this.#through('watch', target, () => super.watch(target, onChange));
  }

  override read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#through('read', { name }, () => super.read(name, signal));
  }

  async #through<T>(
    verb: StoreVerb,
    ref: { readonly name: string; readonly id?: string },
    run: () => Promise<T>,
  ): Promise<T> {
    const call: StoreCall = { n: this.calls.length + 1, verb, name: ref.name, id: ref.id ?? null };
    this.calls.push(call);
    const fault = this.#plan(call);
    if (fault === 'refuse') throw new StoreError(`${verb} was refused (fault)`, { applied: 'no' });
    if (fault === 'fail') throw new StoreError(`${verb} failed (fault)`, { applied: 'unknown' });
    const reply = await run();
    if (fault === 'lose')
      throw new StoreError(`the reply to ${verb} was lost (fault)`, { applied: 'unknown' });
    return fault === 'hang' ? await new Promise<never>(() => {}) : reply;
  }
}
