import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { onAbort } from '../../hold/abort.ts';
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
/** A row that somebody else has locked is free again in a moment. */
const BUSY_MS = { min: 1, max: 40 };
const BUSY_TRIES = 60;
/** Serialization failure and deadlock: nothing was done, and the next try may do. */
const AGAIN = new Set(['40001', '40P01']);
const AGAIN_TRIES = 5;
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
    const call = new Call(items, connection);
    const operations = items.map((item) => item.operation);
    const channel = this.#channel();
    const statement = statementOf(this.#schema, operations, {
      isSetUp: connection.isDirect,
      lineMax: this.#lineMax,
      channel,
    });
    connection.run(statement).then(
      (rows) => {
        call.end();
        this.#lanes.giveBack(connection);
        const answers = (rows[0]?.[0] ?? '').split(',');
        for (let index = 0; index < items.length; index += 1) {
          const item = items[index];
          if (item !== undefined) this.#answer(item, answers[index] ?? '');
        }
      },
      (error: unknown) => {
        call.end();
        this.#onFailure(items, error);
        this.#lanes.giveBack(connection);
      },
    );
  }

  /** The next items that somebody still waits for, in the order of their names and, for one name, of their asking. */
  #next(): Item[] {
    const all = this.#queue;
    this.#queue = all.length > ITEMS_MAX ? all.splice(ITEMS_MAX) : [];
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
      const ms = BUSY_MS.min + this.#clock.random() * Math.min(BUSY_MS.max, 2 * item.tries);
      this.#clock.startTimer(ms, () => this.#enqueue(item));
    }
  }

  #onFailure(items: readonly Item[], error: unknown): void {
    const state = sqlStateOf((error as { cause?: unknown }).cause);
    if (state !== null && MISSING.has(state)) this.#lanes.forgetSchema();
    for (const item of items) {
      if (state === null || !AGAIN.has(state) || item.tries >= AGAIN_TRIES) fail(item, error);
      else if (!item.isSettled) {
        item.tries += 1;
        this.#enqueue(item);
      }
    }
  }
}

/** A statement under way. When nobody waits for it any more, its connection is given up: it may never answer. */
class Call {
  readonly #items: readonly Item[];
  readonly #connection: Connection;
  readonly #stops: Array<() => void> = [];

  constructor(items: readonly Item[], connection: Connection) {
    this.#items = items;
    this.#connection = connection;
    // The core gives many commands one signal.
    const signals = new Set(items.map((item) => item.signal));
    for (const signal of signals) {
      if (signal !== undefined) this.#stops.push(onAbort(signal, () => this.#onAbort(signal)));
    }
  }

  end(): void {
    for (const stop of this.#stops) stop();
  }

  #onAbort(signal: AbortSignal): void {
    for (const item of this.#items) if (item.signal === signal) fail(item, tooLate(true));
    if (this.#items.every((item) => item.isSettled)) this.#connection.destroy();
  }
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
