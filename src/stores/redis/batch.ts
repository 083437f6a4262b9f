import { type HoldfastError, StoreError } from '../../errors.ts';
import { onAbort } from '../../hold/abort.ts';
import { failureOf, isNoScript } from './failure.ts';
import type { Gate } from './gate.ts';

export interface Script {
  readonly sha: string;
  readonly text: string;
}

/** How the requests of one operation become one call of its script. */
export interface Operation<Request> {
  readonly script: Script;
  /** The keys and arguments of a call for all of these. */
  encode(requests: readonly Request[]): { keys: readonly string[]; args: readonly string[] };
  /** One answer for each request, in order. */
  answersIn(reply: unknown): readonly unknown[];
}

interface Item<Request> {
  readonly request: Request;
  readonly resolve: (answer: unknown) => void;
  readonly reject: (error: HoldfastError) => void;
  call: Call | null;
  isSettled: boolean;
  stopListening: (() => void) | null;
}

interface Call {
  /** Items that somebody still waits for. */
  waiting: number;
  isOver: boolean;
}

/** Most items of one call: a long script would keep everybody else waiting. */
const CALL_ITEMS_MAX = 128;
/** More calls than this at once only make each of them smaller. */
const CALLS_MAX = 8;

/**
 * What is asked in one tick travels as one script call. While many calls are on their way, what comes meanwhile is gathered for the next, so the
 * calls grow with the load. Nothing waits on a timer.
 */
export class Batch<Request> {
  readonly #gate: Gate;
  readonly #operation: Operation<Request>;
  #queue: Item<Request>[] = [];
  #calls = 0;
  #isDue = false;
  #isWaitingForGate = false;

  constructor(gate: Gate, operation: Operation<Request>) {
    this.#gate = gate;
    this.#operation = operation;
  }

  /**
   * Resolves to the script's answer for this request. When the signal aborts, it rejects with a `StoreError`: `applied: 'no'` when it was not sent yet, and
   * then it never will be.
   */
  add(request: Request, signal: AbortSignal | undefined): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const item: Item<Request> = {
        request,
        resolve,
        reject,
        call: null,
        isSettled: false,
        stopListening: null,
      };
      if (signal?.aborted === true) {
        reject(outOfTime(item));
        return;
      }
      if (signal !== undefined)
        item.stopListening = onAbort(signal, () => this.#settle(item, outOfTime(item)));
      this.#queue.push(item);
      this.#flushSoon();
    });
  }

  /** After the microtasks of this tick, so that whatever they ask for travels along. */
  #flushSoon(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    process.nextTick(this.#flush);
  }

  readonly #flush = (): void => {
    this.#isDue = false;
    if (this.#queue.length === 0) return;
    if (!this.#gate.isOpen) {
      this.#waitForGate();
      return;
    }
    while (this.#queue.length > 0 && this.#calls < CALLS_MAX) {
      const items = this.#queue.splice(0, CALL_ITEMS_MAX).filter((item) => !item.isSettled);
      if (items.length > 0) this.#send(items);
    }
  };

  #waitForGate(): void {
    if (this.#isWaitingForGate) return;
    this.#isWaitingForGate = true;
    this.#gate.onceOpen((refusal) => {
      this.#isWaitingForGate = false;
      if (refusal === null) this.#flush();
      else for (const item of this.#queue.splice(0)) this.#settle(item, refusal);
    });
  }

  #send(items: readonly Item<Request>[]): void {
    const call: Call = { waiting: items.length, isOver: false };
    for (const item of items) item.call = call;
    this.#calls += 1;
    this.#run('EVALSHA', items).then(
      (answers) => {
        items.forEach((item, index) => {
          this.#settle(item, null, answers[index]);
        });
        this.#end(call);
      },
      (error: unknown) => {
        const failure = failureOf(error);
        for (const item of items) this.#settle(item, failure);
        this.#end(call);
      },
    );
  }

  async #run(command: 'EVALSHA' | 'EVAL', items: readonly Item<Request>[]): Promise<readonly unknown[]> {
    const { script } = this.#operation;
    const { keys, args } = this.#operation.encode(items.map((item) => item.request));
    const body = command === 'EVALSHA' ? script.sha : script.text;
    try {
      return this.#operation.answersIn(
        await this.#gate.link.send([command, body, `${keys.length}`, ...keys, ...args]),
      );
    } catch (error) {
      if (command === 'EVAL' || !isNoScript(error)) throw error;
      return await this.#runWithText(items);
    }
  }

  /** The server has lost the script and done nothing. What was given up meanwhile must not be done after all. */
  async #runWithText(items: readonly Item<Request>[]): Promise<readonly unknown[]> {
    const wanted = items.filter((item) => !item.isSettled);
    if (wanted.length === 0) return [];
    const answers = await this.#run('EVAL', wanted);
    const byItem = new Map(wanted.map((item, index) => [item, answers[index]]));
    return items.map((item) => byItem.get(item));
  }

  #settle(item: Item<Request>, failure: HoldfastError | null, answer?: unknown): void {
    if (item.isSettled) return;
    item.isSettled = true;
    item.stopListening?.();
    if (failure === null) item.resolve(answer);
    else item.reject(failure);
    const { call } = item;
    // A call that nobody waits for any more must not stand in the way of others: its reply may never come.
    if (call !== null && --call.waiting === 0) this.#end(call);
  }

  #end(call: Call): void {
    if (call.isOver) return;
    call.isOver = true;
    this.#calls -= 1;
    if (this.#queue.length > 0) this.#flushSoon();
  }
}

function outOfTime(item: { readonly call: Call | null }): StoreError {
  return item.call === null
    ? new StoreError('Redis: not sent within the time limit', { applied: 'no' })
    : new StoreError('Redis did not answer within the time limit', { applied: 'unknown' });
}
