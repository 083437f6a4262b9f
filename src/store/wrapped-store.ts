import type { DiagnoseContext, Finding } from './finding.ts';
import { firstAnswer } from './first-answer.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  Waiter,
  WatchTarget,
} from './store.ts';

/** A store that passes every call on to another. Subclasses override the calls that they change. */
export class WrappedStore<S extends Store = Store> implements Store {
  readonly kind: string | undefined;
  readonly traits: Traits;
  readonly onEvicted: Store['onEvicted'];
  protected readonly store: S;

  constructor(store: S) {
    this.kind = store.kind;
    this.traits = store.traits;
    this.onEvicted = store.onEvicted?.bind(store);
    this.store = store;
  }

  connect(signal: AbortSignal): Promise<void> {
    return firstAnswer(this.store, signal);
  }

  claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    return this.store.claim(request, signal, waiter);
  }

  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    return this.store.renew(claim, change, signal);
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.store.release(claim, signal);
  }

  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.store.evict(claim, signal);
  }

  watch(target: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    return this.store.watch(target, onChange);
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.store.read(name, signal);
  }

  list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    return this.store.list(prefix, signal);
  }

  async diagnose(context: DiagnoseContext): Promise<readonly Finding[]> {
    return (await this.store.diagnose?.(context)) ?? [];
  }

  close(): Promise<void> {
    return this.store.close();
  }
}
