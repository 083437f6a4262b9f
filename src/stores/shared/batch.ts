import type { Timer } from '../../clock.ts';
import { onAbort } from '../../util/abort.ts';
import { type Linked, LinkedList } from '../../util/linked-list.ts';
import { type Indexed, UnorderedSet } from '../../util/unordered-set.ts';
import type { Answer, BatchOptions, CallInfo, FailureVerdict } from './batch-options.ts';

/**
 * A callback of this promise runs as soon as the running code has ended. `queueMicrotask` would
 * create an asynchronous resource each time.
 */
const NOW = Promise.resolve();
/**
 * Almost every call is answered long before this time, and then needs no listeners on the signals
 * of its requests. With a listener for each request, `bench redis hundred thousand` counted 10 and
 * 16 % fewer pairs.
 */
const SLOW_MS = 250;

/**
 * Sends many small requests in few calls. Requests of the same moment share a call. While as many
 * calls as allowed are pending, new requests are queued for the next call. So batches grow with the
 * load, and no request waits for a timer. A request whose signal aborts is rejected at once, and is
 * never sent if it was still queued.
 */
export class Batch<Request, Result> {
  readonly #options: BatchOptions<Request, Result>;
  readonly #queue = new LinkedList<Item<Request, Result>>();
  readonly #calls = new UnorderedSet<Call<Request, Result>>();
  /** Requests that are sent again when their own retry timer fires. */
  readonly #delayed = new UnorderedSet<Item<Request, Result>>();
  /** No call is sent until this timer fires. */
  #pause: Timer | null = null;
  /** How many abandoned calls have no answer yet. */
  #abandoned = 0;
  #isDue = false;
  #isWaitingForReadiness = false;
  #isWatchingSlow = false;

  constructor(options: BatchOptions<Request, Result>) {
    this.#options = options;
  }

  /** No call is pending, and no request waits to be sent. */
  get isIdle(): boolean {
    return this.#calls.all.length + this.#queue.length + this.#delayed.all.length === 0;
  }

  /** Settles as `send` answers for this request, or rejects as soon as the signal aborts. */
  add(request: Request, signal?: AbortSignal): Promise<Result> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted === true) {
        reject(this.#options.errors.notSent());
        return;
      }
      const item = new Item(request, signal, resolve, reject);
      item.isAlone = this.#options.isAlone?.(request) === true;
      this.#queue.push(item);
      if (this.#isDue) return;
      this.#isDue = true;
      if (this.#calls.all.length === 0 && this.#options.sendsAtOnce === true) void NOW.then(this.#flush);
      // After the microtasks of this tick, so that their requests join the call.
      else process.nextTick(this.#flush);
    });
  }

  /** Rejects every request that is not in a pending call. */
  rejectQueued(error: Error): void {
    for (let { first } = this.#queue; first !== null; first = this.#queue.first) this.#reject(first, error);
    for (const item of [...this.#delayed.all]) this.#reject(item, error);
  }

  readonly #flush = (): void => {
    this.#isDue = false;
    const { send } = this.#options;
    const itemsMax = this.#itemsMax();
    while (this.#queue.length > 0 && this.#canSend()) {
      const call = this.#nextCall(itemsMax);
      if (call === null) break;
      const requests = call.items.map(({ request }) => request);
      let answers: Promise<readonly Answer<Result>[]>;
      try {
        answers = send(requests, call);
      } catch (error) {
        answers = Promise.reject(error);
      }
      answers.then(
        (all) => this.#onAnswers(call, all),
        (error: unknown) => this.#onFailure(call, error),
      );
    }
    this.#listenToQueued();
  };

  #itemsMax(): number {
    const { itemsMax, halveAbove } = this.#options;
    if (halveAbove === undefined || this.#calls.all.length > 0) return itemsMax;
    return Math.min(Math.max(Math.ceil(this.#queue.length / 2), halveAbove), itemsMax);
  }

  #canSend(): boolean {
    const { callsMax, abandonedMax = Number.POSITIVE_INFINITY, isReady } = this.#options;
    if (this.#calls.all.length >= callsMax || this.#pause !== null) return false;
    if (this.#abandoned >= abandonedMax) return false;
    if (isReady === undefined || isReady()) return true;
    this.#waitForReadiness();
    return false;
  }

  #waitForReadiness(): void {
    if (this.#isWaitingForReadiness) return;
    this.#isWaitingForReadiness = true;
    this.#options.whenReady?.((refusal) => {
      this.#isWaitingForReadiness = false;
      if (refusal === null) this.#flush();
      else this.rejectQueued(refusal);
    });
  }

  /** Moves requests from the queue to a new call; `null` when all of them were given up. */
  #nextCall(itemsMax: number): Call<Request, Result> | null {
    const { clock, conflicts, onFailure, orderBy } = this.#options;
    const items: Item<Request, Result>[] = [];
    const taken = conflicts === undefined ? null : new Set<string>();
    for (let { first } = this.#queue; first !== null && items.length < itemsMax; first = this.#queue.first) {
      if (first.signal?.aborted === true) {
        this.#giveUp(first);
        continue;
      }
      if (first.isAlone && items.length > 0) break;
      const keys = conflicts?.(first.request) ?? [];
      if (keys.some((key) => taken?.has(key))) break;
      for (const key of keys) taken?.add(key);
      this.#queue.delete(first);
      items.push(first);
      if (first.isAlone) break;
    }
    if (items.length === 0) return null;
    if (orderBy !== undefined && items.length > 1) sortBy(items, ({ request }) => orderBy(request));
    const call = new Call(items, onFailure === undefined ? 0 : clock.monotonicMs());
    this.#calls.add(call);
    if (!this.#isWatchingSlow) this.#watchSlow();
    return call;
  }

  #onAnswers(call: Call<Request, Result>, answers: readonly Answer<Result>[]): void {
    this.#onSettled(call);
    const { items } = call;
    for (let position = 0; position < items.length; position += 1) {
      const item = items[position];
      if (item === undefined || item.call !== call) continue;
      const answer = answers[position];
      if (answer === undefined) this.#reject(item, this.#options.errors.failed(new Error('no answer')));
      else if ('value' in answer) {
        this.#leave(item);
        item.stopListening?.();
        item.resolve(answer.value);
      } else if ('error' in answer) this.#reject(item, answer.error);
      else this.#retryLater(item, answer.retryMs);
    }
    this.#end(call);
  }

  #onFailure(call: Call<Request, Result>, error: unknown): void {
    this.#onSettled(call);
    const failure = this.#options.errors.failed(error);
    const again: Item<Request, Result>[] = [];
    let pauseMs = 0;
    for (const item of call.items) {
      if (item.call !== call) continue;
      const verdict = this.#verdict(item, call, error);
      if (verdict === 'fail') this.#reject(item, failure);
      else {
        this.#leave(item);
        again.push(item);
        if (verdict === 'alone') item.isAlone = true;
        else pauseMs = Math.max(pauseMs, verdict.againMs);
      }
    }
    for (const item of again.reverse()) {
      this.#queue.unshift(item);
      this.#listenTo(item);
    }
    if (pauseMs > 0) this.#pauseFor(pauseMs);
    this.#end(call);
  }

  #verdict(item: Item<Request, Result>, call: Call<Request, Result>, error: unknown): FailureVerdict {
    const { clock, onFailure } = this.#options;
    if (onFailure === undefined) return 'fail';
    item.tries += 1;
    item.firstSentMs ??= call.sentAtMs;
    const elapsedMs = clock.monotonicMs() - item.firstSentMs;
    const verdict = onFailure(error, { tries: item.tries, elapsedMs });
    return verdict === 'alone' && call.items.length === 1 ? 'fail' : verdict;
  }

  /** The timer keeps the process alive, because callers wait for the queued requests. */
  #pauseFor(ms: number): void {
    this.#pause?.cancel();
    const resume = (): void => {
      this.#pause = null;
      this.#flush();
    };
    this.#pause = this.#options.clock.startTimer(ms, resume, { keepAlive: true });
  }

  /** The timer keeps the process alive, because a caller waits for this request. */
  #retryLater(item: Item<Request, Result>, ms: number): void {
    this.#leave(item);
    item.tries += 1;
    const resume = (): void => {
      this.#leave(item);
      item.stopListening?.();
      item.stopListening = null;
      this.#queue.push(item);
      this.#flushInNextTick();
    };
    if (ms <= 0) {
      resume();
      return;
    }
    this.#delayed.add(item);
    item.timer = this.#options.clock.startTimer(ms, resume, { keepAlive: true });
    this.#listenTo(item);
  }

  #reject(item: Item<Request, Result>, error: Error): void {
    this.#leave(item);
    item.stopListening?.();
    item.reject(error);
  }

  /** Removes the request from the queue, from its call, or from the delayed requests. */
  #leave(item: Item<Request, Result>): void {
    this.#queue.delete(item);
    if (item.timer !== null) {
      item.timer.cancel();
      item.timer = null;
      this.#delayed.delete(item);
    }
    const { call } = item;
    if (call === null) return;
    item.call = null;
    call.waiting -= 1;
    if (call.waiting === 0 && !call.isOver) this.#abandon(call);
  }

  /**
   * The answer may never come, so the call must neither block other calls nor keep its requests in
   * memory.
   */
  #abandon(call: Call<Request, Result>): void {
    call.items = [];
    call.isAbandoned = true;
    this.#abandoned += 1;
    this.#end(call);
    call.onAbandoned?.();
  }

  #onSettled(call: Call<Request, Result>): void {
    call.isOver = true;
    if (call.isAbandoned) this.#abandoned -= 1;
  }

  #end(call: Call<Request, Result>): void {
    this.#calls.delete(call);
    if (this.#queue.length > 0) this.#flushInNextTick();
  }

  #flushInNextTick(): void {
    if (!this.#isDue) process.nextTick(this.#flush);
    this.#isDue = true;
  }

  /**
   * A request that was not sent at once may wait for long, and must leave the queue when its caller
   * gives up. Requests enter at the end, so those without a listener on their signal are the last
   * ones.
   */
  #listenToQueued(): void {
    for (let item = this.#queue.last; item !== null && item.stopListening === null; ) {
      const { previous } = item;
      this.#listenTo(item);
      item = previous;
    }
  }

  /** While calls are pending, listens to the signals of the slow ones. */
  #watchSlow(): void {
    this.#isWatchingSlow = true;
    this.#options.clock.startTimer(SLOW_MS, () => {
      this.#isWatchingSlow = false;
      for (const call of [...this.#calls.all]) for (const item of call.items) this.#listenTo(item);
      if (this.#calls.all.length > 0) this.#watchSlow();
    });
  }

  #listenTo(item: Item<Request, Result>): void {
    const { signal } = item;
    if (item.stopListening !== null) return;
    if (signal === undefined) item.stopListening = NOTHING;
    else if (signal.aborted) this.#giveUp(item);
    else item.stopListening = onAbort(signal, () => this.#giveUp(item));
  }

  #giveUp(item: Item<Request, Result>): void {
    const { errors, keepsSent, onNoAnswer } = this.#options;
    const isSent = item.call !== null;
    if (isSent) onNoAnswer?.();
    if (isSent && keepsSent === true) {
      item.stopListening = NOTHING;
      return;
    }
    this.#reject(item, isSent ? errors.noAnswer() : errors.notSent());
  }
}

const NOTHING = (): void => {};

class Item<Request, Result> implements Linked<Item<Request, Result>>, Indexed {
  readonly request: Request;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: Error) => void;
  /** Set while the request is in a pending call. */
  call: Call<Request, Result> | null = null;
  /** Set while the request waits for its retry. */
  timer: Timer | null = null;
  /** Set while the request is in the queue. */
  previous: Item<Request, Result> | null = null;
  next: Item<Request, Result> | null = null;
  isLinked = false;
  index = 0;
  isAlone = false;
  tries = 0;
  firstSentMs: number | null = null;
  /** Set while its signal is listened to. */
  stopListening: (() => void) | null = null;

  constructor(
    request: Request,
    signal: AbortSignal | undefined,
    resolve: (result: Result) => void,
    reject: (error: Error) => void,
  ) {
    this.request = request;
    this.signal = signal;
    this.resolve = resolve;
    this.reject = reject;
  }
}

class Call<Request, Result> implements CallInfo, Indexed {
  /** Empty once every caller has given up. */
  items: readonly Item<Request, Result>[];
  /** How many callers still wait for it. */
  waiting: number;
  readonly sentAtMs: number;
  /** The answer or the failure has arrived. */
  isOver = false;
  isAbandoned = false;
  index = 0;
  onAbandoned: (() => void) | null = null;

  constructor(items: readonly Item<Request, Result>[], sentAtMs: number) {
    this.items = items;
    this.waiting = items.length;
    this.sentAtMs = sentAtMs;
    for (const item of items) item.call = this;
  }

  isWanted(position: number): boolean {
    return this.items[position]?.call === this;
  }

  triesOf(position: number): number {
    return this.items[position]?.tries ?? 0;
  }
}

function sortBy<T>(items: T[], keyOf: (item: T) => string): void {
  items.sort((a, b) => {
    const [keyA, keyB] = [keyOf(a), keyOf(b)];
    return keyA < keyB ? -1 : keyA > keyB ? 1 : 0;
  });
}
