import { threadClock } from '../clock.ts';
import { firstAnswer } from '../store/first-answer.ts';
import type { ClaimOutcome, Store, Waiter } from '../store/store.ts';
import { instant } from '../store/validity.ts';
import type { KeptHolds } from './kept-holds.ts';
import type { Answer, Arguments, Call, FromThread, Verb } from './messages.ts';
import { plainError } from './plain-error.ts';
import type { ServedClaims } from './served-claims.ts';

/** The most names in one part of a list. */
const NAMES_MAX = 100;

type Serve<V extends Verb> = (signal: AbortSignal, ...args: Arguments<V>) => Promise<Answer<V>> | Answer<V>;

/** Answers the calls of the process in the thread. */
export class StoreService {
  readonly #store: Store;
  readonly #kept: KeptHolds;
  /** `null` on a store whose claims expire by themselves. */
  readonly #served: ServedClaims | null;
  readonly #post: (message: FromThread) => void;
  readonly #pending = new Map<number, AbortController>();
  readonly #watches = new Map<number, AsyncDisposable>();
  readonly #lists = new Map<number, AsyncIterator<string>>();
  readonly #verbs: { readonly [V in Verb]: Serve<V> };

  constructor(
    store: Store,
    kept: KeptHolds,
    served: ServedClaims | null,
    post: (message: FromThread) => void,
  ) {
    this.#store = store;
    this.#kept = kept;
    this.#served = served;
    this.#post = post;
    this.#verbs = this.#makeVerbs();
  }

  serve(call: Call): void {
    const { number, verb, args, isAbandoned } = call;
    const controller = new AbortController();
    if (isAbandoned) controller.abort();
    this.#pending.set(number, controller);
    const serve = this.#verbs[verb] as (signal: AbortSignal, ...args: unknown[]) => unknown;
    const answered = (async () => serve(controller.signal, ...args))();
    answered.then(
      (value) => {
        this.#pending.delete(number);
        this.#post({ kind: 'answer', number, value });
      },
      (error: unknown) => {
        this.#pending.delete(number);
        this.#post({ kind: 'failure', number, error: plainError(error) });
      },
    );
  }

  abandon(number: number): void {
    this.#pending.get(number)?.abort();
  }

  #makeVerbs(): { readonly [V in Verb]: Serve<V> } {
    const store = this.#store;
    return {
      open: () => ({ traits: store.traits, kind: store.kind, monotonicMs: threadClock.monotonicMs() }),
      connect: (signal) => firstAnswer(store, signal),
      claim: (signal, request, hasWaiter) => {
        const waiter = hasWaiter ? this.#waiter(request.id) : undefined;
        const send = (): Promise<ClaimOutcome> => store.claim(request, signal, waiter);
        return this.#served?.claim(request, send) ?? send();
      },
      renew: (signal, claim, change) => store.renew(claim, change, signal),
      release: (signal, claim) => {
        this.#served?.forget(claim.id);
        return store.release(claim, signal);
      },
      evict: (signal, claim) => store.evict(claim, signal),
      read: (signal, name) => store.read(name, signal),
      watch: (_signal, number, name) => this.#watch(number, name),
      unwatch: (_signal, number) => this.#unwatch(number),
      list: (signal, number, prefix) => this.#list(signal, number, prefix),
      endList: (_signal, number) => this.#endList(number),
      diagnose: async (signal, limits) =>
        (await store.diagnose?.({ ...limits, clock: threadClock, signal })) ?? [],
      close: () => store.close(),
      extend: (_signal, id, ttlMs) => this.#kept.extend(id, ttlMs),
      stopRenewing: (_signal, id) => this.#kept.stopRenewing(id),
    };
  }

  /** Once the claim is held, its wake-ups mean "renew now", and the thread renews. */
  #waiter(id: string): Waiter {
    return {
      wake: (grant) => {
        if (this.#kept.renewNow(id)) return;
        this.#post({ kind: 'wake', id, grant: grant ?? null, at: instant(threadClock) });
      },
    };
  }

  async #watch(number: number, name: string): Promise<void> {
    const onChange = (): void => this.#post({ kind: 'changed', number });
    this.#watches.set(number, await this.#store.watch({ name }, onChange));
  }

  async #unwatch(number: number): Promise<void> {
    const watch = this.#watches.get(number);
    this.#watches.delete(number);
    await watch?.[Symbol.asyncDispose]();
  }

  async #list(signal: AbortSignal, number: number, prefix: string): Promise<Answer<'list'>> {
    const list = this.#lists.get(number) ?? this.#store.list(prefix, signal)[Symbol.asyncIterator]();
    this.#lists.set(number, list);
    const names: string[] = [];
    while (names.length < NAMES_MAX) {
      const next = await list.next();
      if (next.done === true) return { names, isDone: true };
      names.push(next.value);
    }
    return { names, isDone: false };
  }

  async #endList(number: number): Promise<void> {
    const list = this.#lists.get(number);
    this.#lists.delete(number);
    await list?.return?.();
  }
}
