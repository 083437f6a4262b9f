import type { Clock, Timer } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { type Instant, instant } from '../../hold/validity.ts';
import type { Calls } from './calls.ts';
import type { KeepAliveReply, Stream } from './client.ts';

/** What a member answered to a keep-alive. It counts only once a transaction has shown that it was the leader's word: see `Lease.confirm`. */
export interface Alive {
  /** When it was sent, or a little earlier. */
  readonly sent: Instant;
  /** 0: there is no such lease. */
  readonly ttlMs: number;
  readonly term: number;
}

/** Whoever asks within so long of the last request shares its answer. */
const SHARE_MS = 50;
const TRIES = 2;

interface Waiting {
  readonly promise: Promise<Alive>;
  readonly sent: Instant;
}

/**
 * Keeps leases alive, all that are asked for in one tick over one stream, which ends with the last answer: an open stream would keep the process alive. A member that does
 * not answer is left for another in time, because a follower may have passed the request on to a leader that is gone.
 */
export class KeepAlives {
  readonly #calls: Calls;
  readonly #clock: Clock;
  readonly #waiting = new Map<string, Waiting>();
  #next: Burst | null = null;
  /** How many streams were opened, for those who count. */
  streams = 0;

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  send(leaseId: string, limitMs: number): Promise<Alive> {
    const shared = this.#waiting.get(leaseId);
    if (shared !== undefined && this.#clock.monotonicMs() - shared.sent.monotonicMs < SHARE_MS)
      return shared.promise;
    const sent = instant(this.#clock);
    const promise = this.#try(leaseId, limitMs);
    const waiting = { promise, sent };
    this.#waiting.set(leaseId, waiting);
    const forget = (): void => {
      if (this.#waiting.get(leaseId) === waiting) this.#waiting.delete(leaseId);
    };
    promise.then(forget, forget);
    return promise;
  }

  async #try(leaseId: string, limitMs: number): Promise<Alive> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#burst(limitMs).ask(leaseId);
      } catch (error) {
        if (attempt < TRIES) continue;
        throw new StoreError('A lease could not be kept alive', { cause: error, applied: 'unknown' });
      }
    }
  }

  #burst(limitMs: number): Burst {
    if (this.#next !== null) return this.#next;
    const burst = new Burst(this.#clock, limitMs);
    this.#next = burst;
    process.nextTick(() => {
      this.#next = null;
      this.streams += 1;
      void burst.run(() => this.#calls.keepAlive());
    });
    return burst;
  }
}

interface Asked {
  resolve(alive: Alive): void;
  reject(error: unknown): void;
}

/** One stream, for the leases of one tick. */
class Burst {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #sent: Instant;
  readonly #asked = new Map<string, Asked[]>();
  #stream: Stream<{ ID: string }, KeepAliveReply> | null = null;
  #timer: Timer | null = null;
  #over = false;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#sent = instant(clock);
  }

  ask(leaseId: string): Promise<Alive> {
    return new Promise((resolve, reject) => {
      const asked = this.#asked.get(leaseId) ?? [];
      asked.push({ resolve, reject });
      this.#asked.set(leaseId, asked);
    });
  }

  async run(open: () => Promise<Stream<{ ID: string }, KeepAliveReply>>): Promise<void> {
    this.#timer = this.#clock.startTimer(this.#limitMs, () => this.#fail(new Error('no answer in time')));
    try {
      const stream = await open();
      this.#stream = stream;
      stream.on('error', (error) => this.#fail(error));
      stream.on('end', () => this.#fail(new Error('the stream ended')));
      stream.on('data', (reply) => this.#onReply(reply));
      if (this.#over) stream.cancel();
      else for (const ID of this.#asked.keys()) stream.write({ ID });
    } catch (error) {
      this.#fail(error);
    }
  }

  #onReply(reply: KeepAliveReply): void {
    const asked = this.#asked.get(reply.ID) ?? [];
    this.#asked.delete(reply.ID);
    const alive = {
      sent: this.#sent,
      ttlMs: Math.max(Number(reply.TTL), 0) * 1_000,
      term: Number(reply.header.raft_term),
    };
    for (const { resolve } of asked) resolve(alive);
    if (this.#asked.size > 0) return;
    this.#finish();
    this.#stream?.end();
  }

  #fail(error: unknown): void {
    if (this.#over) return;
    this.#finish();
    for (const asked of this.#asked.values()) for (const { reject } of asked) reject(error);
    this.#asked.clear();
    this.#stream?.cancel();
  }

  #finish(): void {
    this.#over = true;
    this.#timer?.cancel();
  }
}
