import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import { onAbort } from '../../util/abort.ts';
import { isStoreError } from '../../util/error-code.ts';
import type { EndTurn } from '../../util/turns.ts';

/** How many requests are pending at once: enough to keep the servers busy. */
const AT_ONCE_MAX = 256;
const AT_ONCE_MIN = 8;
/**
 * Renewals and releases are answered after the requests that were sent before them. Where those
 * take longer than this share of the session time-out, fewer are sent at once.
 */
const SLOW_SHARE = 1 / 20;

export interface LimitedRequest {
  /** Names the request for `cancel`. */
  readonly key: string;
  /** The claim is in its queue. Its requests are sent before those of claims that enter a queue. */
  readonly isQueued: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Bounds the requests that can wait: those that enter a queue, ask again, or watch the claim ahead.
 * All requests of a session are answered in order, and one process handles all replies. Ten
 * thousand such requests at once would delay renewals, releases and heartbeats for seconds, and the
 * holds would be lost. So renewals, releases and heartbeats bypass the limiter.
 */
export class RequestLimiter {
  readonly #clock: Clock;
  readonly #isOpen: () => boolean;
  readonly #timeoutMs: () => number;
  readonly #queued = new Set<() => void>();
  readonly #entering = new Set<() => void>();
  readonly #cancels = new Map<string, () => void>();
  #pending = 0;
  #atOnce = AT_ONCE_MAX;
  #slowedAtMs = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, isOpen: () => boolean, timeoutMs: () => number) {
    this.#clock = clock;
    this.#isOpen = isOpen;
    this.#timeoutMs = timeoutMs;
  }

  /**
   * Begins a request at once, or resolves when it is its turn, to the function that ends it. Rejects
   * with `applied: 'no'` when the caller gives up before that, or when the connection is lost by then.
   * A command's time limit does not count as giving up: the caller asks again by the same id, and
   * would lose its turn. No other request may be begun within one: it would wait for itself.
   */
  begin({ key, isQueued, signal }: LimitedRequest): EndTurn | Promise<EndTurn> {
    const waiting = isQueued ? this.#queued : this.#entering;
    if (this.#pending < this.#atOnce && waiting.size === 0) return this.#start();
    return new Promise<EndTurn>((resolve, reject) => {
      const leave = (why: string | null): void => {
        stopListening();
        waiting.delete(begin);
        this.#cancels.delete(key);
        if (why === null) resolve(this.#start());
        else reject(new StoreError(why, { applied: 'no' }));
      };
      const begin = (): void => leave(this.#isOpen() ? null : 'The connection was lost before this was sent');
      const giveUp = (): void => leave('The request was given up before it was sent');
      const stopListening = onAbort(signal, () => {
        if (!isStoreError(signal?.reason)) giveUp();
      });
      waiting.add(begin);
      this.#cancels.set(key, giveUp);
    });
  }

  /** Drops a request that waits for its turn. False: there is no such request. */
  cancel(key: string): boolean {
    const giveUp = this.#cancels.get(key);
    giveUp?.();
    return giveUp !== undefined;
  }

  #start(): EndTurn {
    this.#pending += 1;
    const startedMs = this.#clock.monotonicMs();
    return () => {
      this.#pending -= 1;
      this.#adjust(startedMs);
      this.#next();
    };
  }

  /** Halves the bound when replies are slow, once for all requests pending then. Otherwise adds one. */
  #adjust(startedMs: number): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - startedMs <= this.#timeoutMs() * SLOW_SHARE) {
      this.#atOnce = Math.min(this.#atOnce + 1, AT_ONCE_MAX);
    } else if (startedMs >= this.#slowedAtMs) {
      this.#slowedAtMs = nowMs;
      this.#atOnce = Math.max(this.#atOnce >> 1, AT_ONCE_MIN);
    }
  }

  #next(): void {
    // A request that is refused makes room for the next one.
    while (this.#pending < this.#atOnce) {
      const waiting = this.#queued.size > 0 ? this.#queued : this.#entering;
      const [begin] = waiting;
      if (begin === undefined) return;
      begin();
    }
  }
}
