import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { Connection } from './connection.ts';
import { sqlStateOf } from './failure.ts';
import type { Lanes } from './lanes.ts';
import { type Operation, statementOf } from './operation.ts';
import type { Schema } from './schema.ts';

class Item {
  readonly operation: Operation;
  readonly signal: AbortSignal | undefined;
  readonly resolve: (answer: string) => void;
  readonly reject: (error: unknown) => void;
  isSettled = false;
  /** It has failed together with others, and is tried by itself. */
  isAlone = false;
  tries = 0;

  constructor(
    operation: Operation,
    signal: AbortSignal | undefined,
    resolve: (answer: string) => void,
    reject: (error: unknown) => void,
  ) {
    this.operation = operation;
    this.signal = signal;
    this.resolve = resolve;
    this.reject = reject;
  }
}

/** Most items of one statement: its rows stay locked until it has committed. */
const ITEMS_MAX = 128;
/** How often statements that take long are looked at, and after how long one is given up in any case. */
const WATCH_MS = 250;
const STATEMENT_MS = 10_000;
/** A row that somebody else has locked is free again in a moment. */
const BUSY_MS = { min: 1, max: 40 };
const BUSY_AT_ONCE = 3;
const BUSY_TRIES = 60;
/** Serialization failure and deadlock: nothing was done, and the next try may do. */
const AGAIN = new Set(['40001', '40P01']);
const AGAIN_TRIES = 5;
/** Data, a constraint or a limit: one of the items is to blame, and the others were undone with it. */
const ONE_FAILED = /^(22|23|54)/;
/** The schema, a table or a function is not there (any more). */
const MISSING = new Set(['3F000', '42P01', '42883']);

/**
 * What is asked in one tick travels as one statement. While all connections are at work, what comes meanwhile is gathered for the next statement, so they grow with
 * the load. Nothing waits on a timer, except for a row that was locked.
 */
export class Batch {
  readonly #lanes: Lanes;
  readonly #schema: Schema;
  readonly #clock: Clock;
  readonly #lineMax: number;
  readonly #channel: () => string | null;
  #queue: Item[] = [];
  #isDue = false;
  #isWaiting = false;
  readonly #calls = new Set<Call>();
  #isWatching = false;

  constructor(lanes: Lanes, schema: Schema, clock: Clock, lineMax: number, channel: () => string | null) {
    this.#lanes = lanes;
    this.#schema = schema;
    this.#clock = clock;
    this.#lineMax = lineMax;
    this.#channel = channel;
  }

  /** Resolves to the answer that the SQL function gives for this operation. */
  add(operation: Operation, signal: AbortSignal | undefined): Promise<string> {
    return new Promise((resolve, reject) => {
      const item = new Item(operation, signal, resolve, reject);
      if (signal?.aborted === true) reject(tooLate(false));
      else this.#enqueue(item);
    });
  }

  #enqueue(item: Item): void {
    this.#queue.push(item);
    if (this.#isDue) return;
    // After the microtasks of this tick, so that whatever they ask for travels along.
    this.#isDue = true;
    process.nextTick(this.#flush);
  }

  readonly #flush = (): void => {
    this.#isDue = false;
    while (this.#queue.length > 0 && !this.#isWaiting) {
      const connection = this.#lanes.tryTake();
      if (connection !== null) {
        this.#send(connection);
        continue;
      }
      this.#isWaiting = true;
      this.#lanes.take((free, refusal) => {
        this.#isWaiting = false;
        if (free !== null) this.#send(free);
        else for (const item of this.#queue.splice(0)) fail(item, refusal);
        if (this.#queue.length > 0) this.#flush();
      });
    }
  };

  #send(connection: Connection): void {
    const items = this.#next();
    if (items.length === 0) {
      this.#lanes.giveBack(connection);
      return;
    }
    const call: Call = { items, connection, sentAtMs: this.#clock.monotonicMs() };
    this.#calls.add(call);
    if (!this.#isWatching) this.#watch();
    const operations = items.map((item) => item.operation);
    const circumstances = { isSetUp: connection.isDirect, lineMax: this.#lineMax, channel: this.#channel() };
    connection.run(statementOf(this.#schema, operations, circumstances), null).then(
      (rows) => {
        this.#end(call);
        const text = rows[0]?.[0] ?? '';
        const [only] = items;
        if (items.length === 1 && only !== undefined) this.#answer(only, text);
        else {
          const answers = text.split(',');
          // One without an answer would never be settled. An empty one is nobody's, and says so.
          for (const [n, item] of items.entries()) this.#answer(item, answers[n] ?? '');
        }
      },
      (error: unknown) => {
        this.#onFailure(items, error);
        this.#end(call);
      },
    );
  }

  #end(call: Call): void {
    this.#calls.delete(call);
    this.#lanes.giveBack(call.connection);
  }

  /**
   * While statements are under way, looks now and then for those that nobody waits for any more, and gives up their connections: they may never answer. Looking is cheaper than
   * listening to the signal of every command, and almost all are answered long before.
   */
  #watch(): void {
    this.#isWatching = true;
    this.#clock.startTimer(WATCH_MS, () => {
      this.#isWatching = false;
      const now = this.#clock.monotonicMs();
      for (const call of [...this.#calls]) {
        for (const item of call.items) if (item.signal?.aborted === true) fail(item, tooLate(true));
        if (call.items.every((item) => item.isSettled) || now - call.sentAtMs > STATEMENT_MS)
          call.connection.destroy();
      }
      if (this.#calls.size > 0) this.#watch();
    });
  }

  /** The next items that somebody still waits for, in the order of their names and, for one name, of their asking. */
  #next(): Item[] {
    const all = this.#queue;
    const alone = all.length === 1 ? -1 : all.findIndex((item) => item.isAlone);
    const most = alone === -1 ? ITEMS_MAX : Math.min(Math.max(alone, 1), ITEMS_MAX);
    this.#queue = all.length > most ? all.splice(most) : [];
    if (all.length === 1 && all[0]?.signal?.aborted !== true) return all;
    const wanted = all.filter((item) => {
      if (item.signal?.aborted === true) fail(item, tooLate(false));
      return !item.isSettled;
    });
    return wanted.sort((a, b) =>
      a.operation.name < b.operation.name ? -1 : a.operation.name > b.operation.name ? 1 : 0,
    );
  }

  #answer(item: Item, answer: string): void {
    if (item.isSettled) return;
    if (answer !== 'b') {
      item.isSettled = true;
      item.resolve(answer);
    } else if (item.tries >= BUSY_TRIES) {
      fail(item, new StoreError('PostgreSQL: the lock stayed busy', { applied: 'no' }));
    } else {
      item.tries += 1;
      if (item.tries <= BUSY_AT_ONCE) this.#enqueue(item);
      else this.#clock.startTimer(this.#busyMs(item.tries), () => this.#enqueue(item));
    }
  }

  #busyMs(tries: number): number {
    return BUSY_MS.min + this.#clock.random() * Math.min(BUSY_MS.max, tries);
  }

  #onFailure(items: readonly Item[], error: unknown): void {
    const state = sqlStateOf((error as { cause?: unknown }).cause);
    if (state !== null && MISSING.has(state)) this.#lanes.forgetSchema();
    const isOnes = state !== null && ONE_FAILED.test(state) && items.length > 1;
    for (const item of items) {
      if (isOnes) item.isAlone = true;
      else if (state === null || !AGAIN.has(state) || item.tries >= AGAIN_TRIES) fail(item, error);
      else item.tries += 1;
      if (!item.isSettled) this.#enqueue(item);
    }
  }
}

/** A statement under way. */
interface Call {
  readonly items: readonly Item[];
  readonly connection: Connection;
  readonly sentAtMs: number;
}

function fail(item: Item, error: unknown): void {
  if (item.isSettled) return;
  item.isSettled = true;
  item.reject(error);
}

function tooLate(isSent: boolean): StoreError {
  return isSent
    ? new StoreError('PostgreSQL did not answer within the time limit', { applied: 'unknown' })
    : new StoreError('PostgreSQL: not sent within the time limit', { applied: 'no' });
}
