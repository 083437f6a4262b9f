import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { Watching } from '../shared/ahead-watch.ts';
import { type ConnectionEvents, type SubscribedConnection, Subscription } from '../shared/subscription.ts';
import type { Calls } from './calls.ts';
import type { Stream, WatchReply } from './client.ts';

export interface WatchRange {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  /** The first revision whose changes are reported; 0: from now on. */
  readonly from: bigint;
  /** Also reports keys that are created or changed, not only those that are deleted. */
  readonly puts: boolean;
}

const RETRY_MS = { min: 100, max: 5_000 };
/** How often the stream is checked: a connection that drops all data does not end the stream. */
const HEARTBEAT_MS = 5_000;
/** A stream without a first answer is given up after this time. */
const SILENT_MS = 5_000;
/** How long an unused stream stays open for the next waiter. An open stream keeps the process alive. */
const IDLE_MS = 500;

interface Entry {
  readonly range: WatchRange;
  readonly fire: () => void;
  from: bigint;
  watchId: string | null;
  isCancelled: boolean;
  isArmed: boolean;
  /** These settle the promise that the server watches. */
  arm: () => void;
  fail: (error: Error) => void;
}

/**
 * All watches of this store, over one stream. After a reconnect each watch is created again from
 * the first revision that was not reported, or from now on if that revision was compacted, and
 * fires once.
 */
export class WatchHub {
  readonly #calls: Calls;
  readonly #clock: Clock;
  readonly #subscription: Subscription<WatchReply>;
  readonly #entries = new Set<Entry>();
  /** Watches whose creation was requested. The answers come in the same order. */
  #creating: Entry[] = [];
  readonly #byId = new Map<string, Entry>();
  #stream: Stream<object, WatchReply> | null = null;
  #endStream = (): void => {};
  #isClosed = false;

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
    this.#subscription = new Subscription({
      clock,
      open: (events) => this.#open(events),
      retryMs: RETRY_MS,
      heartbeatMs: HEARTBEAT_MS,
      idleMs: IDLE_MS,
      isWanted: () => this.#entries.size > 0,
      onMessage: (reply) => this.#onReply(reply),
    });
  }

  add(range: WatchRange, fire: () => void): Watching {
    const none = (): void => {};
    const state = { from: range.from, watchId: null, isCancelled: false, isArmed: false };
    const entry: Entry = { range, fire, ...state, arm: none, fail: none };
    const armed = new Promise<void>((resolve, reject) => {
      entry.arm = resolve;
      entry.fail = reject;
    });
    armed.catch(() => {});
    // A claim that was pending when the store closed must not wait for the watch for ever.
    if (this.#isClosed) entry.arm();
    else {
      this.#entries.add(entry);
      if (this.#stream !== null) this.#create(entry);
      else void this.#subscription.start();
    }
    return { armed, cancel: () => this.#cancel(entry) };
  }

  close(): void {
    this.#isClosed = true;
    for (const entry of [...this.#entries]) this.#cancel(entry);
    void this.#subscription.close();
  }

  #open(events: ConnectionEvents<WatchReply>): SubscribedConnection {
    let isClosed = false;
    let onAlive = (): void => {};
    const end = (): void => events.onEnd();
    const silence = this.#clock.startTimer(SILENT_MS, end);
    this.#calls.watch().then((stream) => {
      stream.on('error', end);
      stream.on('end', end);
      if (isClosed) return stream.cancel();
      stream.on('data', (reply) => {
        silence.cancel();
        onAlive();
        events.onUp();
        events.onMessage(reply);
      });
      this.#stream = stream;
      this.#endStream = end;
      for (const entry of this.#entries) this.#create(entry);
    }, end);
    return {
      close: () => {
        isClosed = true;
        silence.cancel();
        this.#stream?.cancel();
        this.#stream = null;
        this.#creating = [];
        this.#byId.clear();
        for (const entry of this.#entries) entry.watchId = null;
      },
      checkAlive: () =>
        new Promise<void>((resolve) => {
          onAlive = resolve;
          this.#stream?.write({ progress_request: {} });
        }),
    };
  }

  #create(entry: Entry): void {
    this.#creating.push(entry);
    const { key, range_end, puts } = entry.range;
    const range = range_end === undefined ? { key } : { key, range_end };
    const filters = puts ? [] : ['Noput'];
    this.#stream?.write({ create_request: { ...range, start_revision: String(entry.from), filters } });
  }

  #onReply(reply: WatchReply): void {
    if (reply.created) this.#onCreated(reply);
    else if (reply.canceled) this.#onCanceled(reply);
    else if (reply.events.length > 0) {
      const entry = this.#byId.get(reply.watch_id);
      if (entry === undefined) return;
      entry.from = BigInt(reply.header.revision) + 1n;
      entry.fire();
    }
  }

  #onCreated(reply: WatchReply): void {
    const entry = this.#creating.shift();
    if (entry === undefined) return;
    if (reply.canceled) {
      entry.fail(new StoreError('etcd does not let this user watch', { applied: 'no' }));
      this.#entries.delete(entry);
      return;
    }
    entry.watchId = reply.watch_id;
    if (entry.isCancelled) {
      this.#stream?.write({ cancel_request: { watch_id: reply.watch_id } });
      return;
    }
    this.#byId.set(reply.watch_id, entry);
    if (entry.isArmed) entry.fire();
    entry.isArmed = true;
    entry.arm();
  }

  #onCanceled(reply: WatchReply): void {
    const entry = this.#byId.get(reply.watch_id);
    this.#byId.delete(reply.watch_id);
    if (entry === undefined || entry.isCancelled) return;
    // The changes since `from` were compacted. The watch starts from now on, and fires once.
    entry.from = 0n;
    entry.isArmed = true;
    if (reply.compact_revision === '0') this.#endStream();
    else this.#create(entry);
  }

  #cancel(entry: Entry): void {
    if (entry.isCancelled) return;
    entry.isCancelled = true;
    entry.arm();
    this.#entries.delete(entry);
    if (entry.watchId !== null && this.#byId.delete(entry.watchId))
      this.#stream?.write({ cancel_request: { watch_id: entry.watchId } });
    if (this.#entries.size === 0) this.#subscription.onUnwanted();
  }
}
