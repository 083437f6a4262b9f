import type { Clock, Timer } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { backoff } from '../../hold/pause.ts';
import type { Watching } from '../waiters.ts';
import type { Calls } from './calls.ts';
import type { Stream, WatchReply } from './client.ts';

export interface WatchRange {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  /** The first revision whose changes count; 0: from now on. */
  readonly from: bigint;
  /** Also tell of what is created and changed, not only of what is deleted. */
  readonly puts: boolean;
}

const RETRY = { min: 100, max: 5_000 };
/** A stream that has not said anything for so long, though asked, is dead: a black-holed link never tells. */
const BEAT_MS = 5_000;
/** How long an unused stream is left open for the next waiter. It keeps the process alive. */
const LINGER_MS = 500;

class Entry implements Watching {
  readonly range: WatchRange;
  readonly fire: () => void;
  readonly armed: Promise<void>;
  from: bigint;
  watchId: string | null = null;
  isCancelled = false;
  isArmed = false;
  arm: () => void = () => {};
  fail: (error: Error) => void = () => {};
  readonly #onCancel: (entry: Entry) => void;

  constructor(range: WatchRange, fire: () => void, onCancel: (entry: Entry) => void) {
    this.range = range;
    this.from = range.from;
    this.fire = fire;
    this.#onCancel = onCancel;
    this.armed = new Promise((resolve, reject) => {
      this.arm = resolve;
      this.fail = reject;
    });
    this.armed.catch(() => {});
  }

  cancel(): void {
    if (this.isCancelled) return;
    this.isCancelled = true;
    this.arm();
    this.#onCancel(this);
  }

  get request(): object {
    const { key, range_end, puts } = this.range;
    const filters = puts ? [] : ['Noput'];
    const range = range_end === undefined ? { key } : { key, range_end };
    return { create_request: { ...range, start_revision: String(this.from), filters } };
  }
}

/**
 * All that this store watches, over one stream. What was watched is watched again after every reconnect, from the first revision that was not seen, and is told once;
 * where that revision has been compacted, from now on.
 */
export class WatchHub {
  readonly #calls: Calls;
  readonly #clock: Clock;
  readonly #entries = new Set<Entry>();
  /** Answered in order. */
  readonly #creating: Entry[] = [];
  readonly #byId = new Map<string, Entry>();
  #stream: Stream<object, WatchReply> | null = null;
  #isOpening = false;
  #timer: Timer | null = null;
  #failures = 0;
  #heard = true;
  #isClosed = false;
  /** How many events have come, for those who count. */
  events = 0;

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  add(range: WatchRange, fire: () => void): Watching {
    const entry = new Entry(range, fire, (cancelled) => this.#drop(cancelled));
    this.#entries.add(entry);
    // A claim that was under way when the store was closed has been refused since: nothing would ever tell it that it is watched.
    if (this.#isClosed) entry.cancel();
    else if (this.#stream !== null) this.#create(entry);
    else if (!this.#isOpening && this.#timer === null) void this.#open();
    return entry;
  }

  close(): void {
    this.#isClosed = true;
    for (const entry of [...this.#entries]) entry.cancel();
    this.#leave();
  }

  async #open(): Promise<void> {
    this.#isOpening = true;
    try {
      const stream = await this.#calls.watch();
      if (this.#isClosed) {
        stream.on('error', () => {});
        stream.cancel();
        return;
      }
      const isCurrent = (): boolean => this.#stream === stream;
      stream.on('data', (reply) => isCurrent() && this.#onReply(reply));
      stream.on('error', () => isCurrent() && this.#onBroken());
      stream.on('end', () => isCurrent() && this.#onBroken());
      this.#stream = stream;
      this.#heard = true;
      this.#beat();
      for (const entry of this.#entries) this.#create(entry);
    } catch {
      this.#onBroken();
    } finally {
      this.#isOpening = false;
    }
  }

  #create(entry: Entry): void {
    this.#creating.push(entry);
    this.#stream?.write(entry.request);
  }

  #onReply(reply: WatchReply): void {
    this.#heard = true;
    this.#failures = 0;
    if (reply.created) this.#onCreated(reply);
    else if (reply.canceled) this.#onCanceled(reply);
    else if (reply.events.length > 0) {
      const entry = this.#byId.get(reply.watch_id);
      if (entry === undefined) return;
      this.events += reply.events.length;
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
    // What happened since is lost with the compacted revisions: watch from now on, and have it looked at once that has begun.
    entry.from = 0n;
    entry.isArmed = true;
    if (reply.compact_revision === '0') this.#onBroken();
    else this.#create(entry);
  }

  #drop(entry: Entry): void {
    this.#entries.delete(entry);
    if (entry.watchId !== null && this.#byId.get(entry.watchId) === entry) {
      this.#byId.delete(entry.watchId);
      this.#stream?.write({ cancel_request: { watch_id: entry.watchId } });
    }
    if (this.#entries.size === 0 && this.#stream !== null) this.#wait(LINGER_MS, () => this.#endUnused());
  }

  #endUnused(): void {
    if (this.#entries.size === 0) this.#leave();
    else this.#beat();
  }

  /** The link may be dead: ask for a sign of life, and give the stream up when the last one did not come. */
  #beat(): void {
    this.#wait(BEAT_MS, () => {
      if (this.#entries.size === 0) return this.#leave();
      if (!this.#heard) return this.#onBroken();
      this.#heard = false;
      this.#stream?.write({ progress_request: {} });
      this.#beat();
    });
  }

  #onBroken(): void {
    this.#leave();
    if (this.#entries.size === 0 || this.#isClosed) return;
    this.#wait(backoff(this.#clock, this.#failures++, RETRY), () => {
      this.#timer = null;
      if (this.#entries.size > 0 && this.#stream === null && !this.#isOpening) void this.#open();
    });
  }

  #leave(): void {
    const stream = this.#stream;
    this.#stream = null;
    this.#timer?.cancel();
    this.#timer = null;
    this.#creating.length = 0;
    this.#byId.clear();
    for (const entry of this.#entries) entry.watchId = null;
    stream?.cancel();
  }

  #wait(ms: number, then: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.#clock.startTimer(ms, then);
  }
}
