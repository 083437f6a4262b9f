import { threadClock } from '../clock.ts';
import type { DiagnoseContext, Finding } from '../store/finding.ts';
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
} from '../store/store.ts';
import { elapsedMs } from '../store/validity.ts';
import { isUnknown, unknownOutcome } from '../util/error-code.ts';
import type { FromThread, OpenedStore } from './messages.ts';
import type { RenewalThread } from './renewal-thread.ts';
import type { SharedHeader } from './shared-slots.ts';

/** A store that lives in the thread, with its connections. */
export class ThreadStore implements Store {
  readonly traits: Traits;
  readonly kind: string | undefined;
  readonly #thread: RenewalThread;
  readonly #header: SharedHeader;
  /** By claim id. */
  readonly #waiters = new Map<string, Waiter>();
  readonly #observers = new Map<number, () => void>();
  /** Observers and lists are numbered. */
  #count = 0;

  constructor(thread: RenewalThread, { traits, kind }: OpenedStore, header: SharedHeader) {
    this.#thread = thread;
    this.#header = header;
    this.traits = traits;
    this.kind = kind;
    thread.onMessage((message) => this.#onMessage(message));
  }

  async connect(signal: AbortSignal): Promise<void> {
    await this.#thread.call('connect', [], signal);
  }

  async claim(request: ClaimRequest, signal?: AbortSignal, waiter?: Waiter): Promise<ClaimOutcome> {
    const { id } = request;
    const isNew = waiter !== undefined && !this.#waiters.has(id);
    // Before the claim is sent: a wake-up may arrive before the answer.
    if (waiter !== undefined) this.#waiters.set(id, waiter);
    const sentMs = threadClock.monotonicMs();
    this.#header.setTurn(threadClock);
    try {
      const outcome = await this.#thread.call('claim', [request, waiter !== undefined], signal);
      if (outcome.granted && this.#isReleasedSince(sentMs))
        throw unknownOutcome('The event loop was blocked for so long that the claim was released');
      if (outcome.granted ? this.traits.lifetime === 'lease' : !request.wait) this.#waiters.delete(id);
      return outcome;
    } catch (error) {
      if (isNew && !isUnknown(error)) this.#waiters.delete(id);
      throw error;
    }
  }

  renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    return this.#thread.call('renew', [claim, change], signal);
  }

  release(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#waiters.delete(claim.id);
    return this.#thread.call('release', [claim], signal);
  }

  evict(claim: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    return this.#thread.call('evict', [claim], signal);
  }

  async watch({ name }: WatchTarget, onChange: () => void): Promise<AsyncDisposable> {
    const number = this.#nextNumber();
    this.#observers.set(number, onChange);
    const end = async (): Promise<void> => {
      if (this.#observers.delete(number)) await this.#thread.call('unwatch', [number]).catch(() => {});
    };
    try {
      await this.#thread.call('watch', [number, name]);
    } catch (error) {
      await end();
      throw error;
    }
    return { [Symbol.asyncDispose]: end };
  }

  read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    return this.#thread.call('read', [name], signal);
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    const number = this.#nextNumber();
    try {
      for (let isDone = false; !isDone; ) {
        const page = await this.#thread.call('list', [number, prefix], signal);
        yield* page.names;
        isDone = page.isDone;
      }
    } finally {
      this.#thread.call('endList', [number]).catch(() => {});
    }
  }

  diagnose({ ttlMs, commandMs, limitMs, signal }: DiagnoseContext): Promise<readonly Finding[]> {
    return this.#thread.call('diagnose', [{ ttlMs, commandMs, limitMs }], signal);
  }

  async close(): Promise<void> {
    this.#waiters.clear();
    this.#observers.clear();
    await this.#thread.end();
  }

  #nextNumber(): number {
    this.#count += 1;
    return this.#count;
  }

  /**
   * Whether the thread took the process for hung, and released what was granted to it since then.
   */
  #isReleasedSince(monotonicMs: number): boolean {
    // First: a thread that sees this turn releases nothing.
    this.#header.setTurn(threadClock);
    return this.#header.isReleasedSince(monotonicMs);
  }

  #onMessage(message: FromThread): void {
    if (message.kind === 'ping') this.#header.setTurn(threadClock);
    if (message.kind === 'changed') this.#observers.get(message.number)?.();
    if (message.kind !== 'wake') return;
    const { id, grant, at } = message;
    const waiter = this.#waiters.get(id);
    // The message may have waited for a blocked event loop.
    const leftMs = grant === null ? 0 : grant.validForMs - elapsedMs(threadClock, at);
    if (grant === null || leftMs <= 0 || this.#isReleasedSince(at.monotonicMs)) waiter?.wake();
    else {
      if (this.traits.lifetime === 'lease') this.#waiters.delete(id);
      waiter?.wake({ fence: grant.fence, validForMs: leftMs });
    }
  }
}
