import type { Clock } from '../../clock.ts';
import { onAbort } from '../../hold/abort.ts';
import { Bag, type Bagged } from '../../hold/bag.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import { failureOf, isFromReplica, isNoScript, outOfTime } from './failure.ts';
import type { Gate } from './gate.ts';

export interface Script {
  readonly sha: string;
  readonly text: string;
}

/** How the requests of one operation become one call of its script, and its answers results. */
export interface Operation<Request, Result> {
  readonly script: Script;
  /** Whether the time of sending is worth two looks at the clock now. */
  isTimed(): boolean;
  keyCount(items: number): number;
  /** Adds the keys and arguments for all of these to the command. */
  encode(items: readonly { readonly request: Request }[], command: string[]): void;
  /** Somebody else is likely to wait for what these do. */
  isAwaited?(items: readonly { readonly request: Request }[]): boolean;
  /** Throws a `HoldfastError` for an answer that is one. */
  decode(request: Request, answer: unknown, sending: Sending): Result;
  /** Nobody gets a result for it any more. */
  onFailed?(request: Request): void;
}

/** How the request of an answer went out. */
export interface Sending {
  /** `null` where the operation did not want to know. */
  readonly sentAt: Instant | null;
  /** The client may have sent it twice, and this answers the second. */
  readonly isRepeat: boolean;
}

class Item<Request, Result> {
  readonly request: Request;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
  isSettled = false;
  /** Set once it has been pending for a while. */
  stopListening: (() => void) | null = null;
  call: Call<Request, Result> | null = null;

  constructor(
    request: Request,
    signal: AbortSignal | undefined,
    resolve: (result: Result) => void,
    reject: (error: unknown) => void,
  ) {
    this.request = request;
    this.signal = signal;
    this.resolve = resolve;
    this.reject = reject;
  }
}

interface Call<Request, Result> extends Bagged {
  readonly items: readonly Item<Request, Result>[];
  /** Items that somebody still waits for. */
  waiting: number;
  /** Of the link, when it was sent. */
  readonly breaks: number;
  readonly sentAt: Instant | null;
}

/** Most items of one call: a long script would keep everybody else waiting. */
const CALL_ITEMS_MAX = 128;
/** When nothing is on its way, what is asked at once is split in two: the server works on one half while we read the answers to the other. */
const HALF_ITEMS_MIN = 32;
/** More calls than this at once only make each of them smaller. */
const CALLS_MAX = 8;
/** What follows it runs as soon as the current code has ended. `queueMicrotask` would make an asynchronous resource for each. */
const NOW = Promise.resolve();
/** Almost every command is answered long before this, and then its signal never has to be listened to. */
const SLOW_MS = 250;

/**
 * What is asked in one breath goes out at once, as one script call; while something is on its way, so does what is asked in one tick. While many calls are on their way, what comes meanwhile is
 * gathered for the next, so the calls grow with the load. Nothing waits on a timer.
 */
export class Batch<Request, Result> {
  readonly #gate: Gate;
  readonly #clock: Clock;
  readonly #operation: Operation<Request, Result>;
  #queue: Item<Request, Result>[] = [];
  /** Those on their way: a few at most. */
  readonly #calls = new Bag<Call<Request, Result>>();
  #isDue = false;
  #isWaitingForGate = false;
  #isWatchingSlow = false;

  constructor(gate: Gate, clock: Clock, operation: Operation<Request, Result>) {
    this.#gate = gate;
    this.#clock = clock;
    this.#operation = operation;
  }

  /**
   * Resolves to the script's result for this request. When the signal aborts, it rejects with a `StoreError`: `applied: 'no'` when it was not sent yet, and
   * then it never will be.
   */
  add(request: Request, signal: AbortSignal | undefined): Promise<Result> {
    return new Promise((resolve, reject) => {
      const item = new Item(request, signal, resolve, reject);
      if (signal?.aborted === true) {
        this.#fail(item, outOfTime(false, this.#gate.link));
        return;
      }
      if (!this.#isWatchingSlow) this.#watchSlow();
      this.#queue.push(item);
      if (this.#isDue) return;
      this.#isDue = true;
      // With nothing on its way there is little to gain by waiting for company: only for what is asked in the same breath, such as several locks at once.
      if (this.#calls.all.length === 0) void NOW.then(this.#flush);
      // After the microtasks of this tick, so that whatever they ask for travels along.
      else process.nextTick(this.#flush);
    });
  }

  /** Nothing is on its way, and nothing waits to be sent. */
  get isIdle(): boolean {
    return this.#calls.all.length === 0 && this.#queue.length === 0;
  }

  readonly #flush = (): void => {
    this.#isDue = false;
    if (this.#queue.length === 0) return;
    if (!this.#gate.isOpen) {
      this.#waitForGate();
      return;
    }
    const half =
      this.#calls.all.length === 0
        ? Math.max(Math.ceil(this.#queue.length / 2), HALF_ITEMS_MIN)
        : CALL_ITEMS_MAX;
    const count = Math.min(half, CALL_ITEMS_MAX);
    while (this.#queue.length > 0 && this.#calls.all.length < CALLS_MAX) {
      const items = this.#next(count);
      if (items.length > 0) this.#send(items);
    }
  };

  #next(count: number): Item<Request, Result>[] {
    const all = this.#queue;
    this.#queue = all.length > count ? all.splice(count) : [];
    return all.some(isSettled) ? all.filter((item) => !item.isSettled) : all;
  }

  #waitForGate(): void {
    if (this.#isWaitingForGate) return;
    this.#isWaitingForGate = true;
    this.#gate.onceOpen((refusal) => {
      this.#isWaitingForGate = false;
      if (refusal === null) this.#flush();
      else for (const item of this.#queue.splice(0)) this.#fail(item, refusal);
    });
  }

  #send(items: readonly Item<Request, Result>[]): void {
    const call = {
      items,
      waiting: items.length,
      breaks: this.#gate.link.breaks,
      sentAt: this.#operation.isTimed() ? instant(this.#clock) : null,
    };
    for (const item of items) item.call = call;
    this.#calls.add(call);
    this.#run('evalsha', items).then(
      (reply) => this.#finish(items, call, reply),
      (error: unknown) => this.#onFailure(call, error),
    );
  }

  #run(command: 'evalsha' | 'eval', items: readonly Item<Request, Result>[]): Promise<unknown> {
    const { script } = this.#operation;
    const args = [
      command === 'evalsha' ? script.sha : script.text,
      `${this.#operation.keyCount(items.length)}`,
    ];
    this.#operation.encode(items, args);
    const { link } = this.#gate;
    try {
      if (link.sendYielding !== undefined && this.#operation.isAwaited?.(items) === true)
        return link.sendYielding(command, args);
      return link.send(command, args);
    } catch (error) {
      return Promise.reject(error);
    }
  }

  #finish(items: readonly Item<Request, Result>[], call: Call<Request, Result>, reply: unknown): void {
    // A call for one item answers without a list: clients are slow to read one.
    const sending = { sentAt: call.sentAt, isRepeat: this.#gate.link.breaks !== call.breaks };
    const answers: readonly unknown[] = Array.isArray(reply) ? reply : [reply];
    for (let index = 0; index < items.length; index += 1) {
      const item = items[index];
      if (item !== undefined && !item.isSettled) this.#answer(item, answers[index], sending);
    }
    this.#end(call);
  }

  #answer(item: Item<Request, Result>, answer: unknown, sending: Sending): void {
    try {
      const result = this.#operation.decode(item.request, answer, sending);
      this.#settle(item);
      item.resolve(result);
    } catch (error) {
      this.#fail(item, error);
    }
  }

  #onFailure(call: Call<Request, Result>, error: unknown): void {
    const { items } = call;
    if (isNoScript(error)) {
      // The server has lost the script and done nothing. What was given up meanwhile must not be done after all.
      const wanted = items.filter((item) => !item.isSettled);
      if (wanted.length === 0) return;
      this.#run('eval', wanted).then(
        (reply) => this.#finish(wanted, call, reply),
        (again: unknown) => this.#failAll(wanted, call, again),
      );
    } else this.#failAll(items, call, error);
  }

  #failAll(items: readonly Item<Request, Result>[], call: Call<Request, Result>, error: unknown): void {
    const failure = failureOf(error);
    for (const item of items) this.#fail(item, failure);
    this.#end(call);
  }

  #fail(item: Item<Request, Result>, error: unknown): void {
    if (isFromReplica(error)) this.#gate.link.onReplica?.();
    if (item.isSettled) return;
    this.#settle(item);
    this.#operation.onFailed?.(item.request);
    item.reject(error);
  }

  #settle(item: Item<Request, Result>): void {
    item.isSettled = true;
    item.stopListening?.();
    const { call } = item;
    // A call that nobody waits for any more must not stand in the way of others: its reply may never come.
    if (call !== null && --call.waiting === 0) this.#end(call);
  }

  #end(call: Call<Request, Result>): void {
    if (!this.#calls.delete(call)) return;
    if (this.#queue.length === 0 || this.#isDue) return;
    this.#isDue = true;
    process.nextTick(this.#flush);
  }

  /** While anything is pending, looks now and then for what has been so for long, and listens to its signal from then on. */
  #watchSlow(): void {
    this.#isWatchingSlow = true;
    this.#clock.startTimer(SLOW_MS, () => {
      this.#isWatchingSlow = false;
      const pending = [...this.#queue, ...this.#calls.all.flatMap((call) => call.items)];
      for (const item of pending) this.#listenTo(item);
      if (pending.length > 0) this.#watchSlow();
    });
  }

  #listenTo(item: Item<Request, Result>): void {
    const { signal } = item;
    if (item.isSettled || signal === undefined || item.stopListening !== null) return;
    const giveUp = (): void => {
      if (item.call !== null) this.#gate.onNoAnswer();
      this.#fail(item, outOfTime(item.call !== null, this.#gate.link));
    };
    if (signal.aborted) giveUp();
    else item.stopListening = onAbort(signal, giveUp);
  }
}

function isSettled(item: { readonly isSettled: boolean }): boolean {
  return item.isSettled;
}
