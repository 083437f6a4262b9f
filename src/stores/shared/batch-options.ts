import type { Clock } from '../../clock.ts';

/**
 * What became of one request of a call. `retryMs`: nothing was done, send this one again after so
 * long.
 */
export type Answer<Result> =
  | { readonly value: Result }
  | { readonly error: Error }
  | { readonly retryMs: number };

/**
 * What a backend can ask, or be told, about a call while it is on its way. Requests are known by
 * their position in it.
 */
export interface CallInfo {
  /**
   * False once the caller has given up. A backend that sends the call again must leave that request
   * out.
   */
  isWanted(position: number): boolean;
  /** How often this request was sent before this call. */
  triesOf(position: number): number;
  /**
   * Called when every caller has given up: the answer may never come, and nobody waits for it any
   * more.
   */
  onAbandoned: (() => void) | null;
}

/** A request whose call has failed. */
export interface FailedRequest<Request> {
  readonly request: Request;
  /** How many requests travelled in that call. */
  readonly together: number;
  /** How often it has been sent, this time included, and how long ago the first time was. */
  readonly tries: number;
  readonly elapsedMs: number;
}

/**
 * `fail`: reject. `alone`: one request of the call is to blame and nothing was done, so each is
 * sent by itself; one that was alone is rejected. `againMs`: nothing was done, so it is sent again,
 * before all others, after so long.
 */
export type FailureVerdict = 'fail' | 'alone' | { readonly againMs: number };

export interface BatchOptions<Request, Result> {
  readonly clock: Clock;
  /** How many requests travel in one call at most: a long call keeps all others waiting. */
  readonly itemsMax: number;
  /** How many calls are on their way at most. More of them only make each smaller. */
  readonly callsMax: number;
  /**
   * How many calls that every caller has given up may stay unanswered before no more are sent: the
   * client keeps each of them until the connection breaks. Default: any number.
   */
  readonly abandonedMax?: number;
  /**
   * With nothing on its way, more requests than this are sent as two calls, so that the server
   * works on one while the answers to the other are read. Default: never.
   */
  readonly halveAbove?: number;
  /**
   * With nothing on its way, requests are gathered until the end of the tick, as they always are
   * while a call is on its way. Default: only until the running code has ended.
   */
  readonly gathersTick?: boolean;
  /**
   * Makes one call for all of these, in this order, and resolves to their answers, in the same
   * order.
   */
  send(requests: readonly Request[], call: CallInfo): Promise<readonly Answer<Result>[]>;
  /** Whether a call can go out now. Default: always. */
  isReady?(): boolean;
  /**
   * Calls back once, when a call can go out, or with the reason why none can: then all that is
   * queued is rejected.
   */
  whenReady?(callback: (refusal: Error | null) => void): void;
  /** The requests of a call are sorted by this; those that compare equal keep their order. */
  orderBy?(request: Request): string;
  /** Requests with a key in common go out in different calls, in the order in which they came. */
  conflicts?(request: Request): readonly string[];
  /** This request never shares a call. */
  isAlone?(request: Request): boolean;
  /** What becomes of a request whose call has failed. Default: it is rejected. */
  onFailure?(error: unknown, failed: FailedRequest<Request>): FailureVerdict;
  /**
   * A request that was sent is not given up when its signal aborts: its answer is needed. Default:
   * it is.
   */
  readonly keepsSent?: boolean;
  /** A caller has given up a request that was sent. */
  onNoAnswer?(): void;
  /** What callers are rejected with. */
  readonly errors: {
    /** Given up before it was sent. It will never be. */
    notSent(): Error;
    /** Given up after it was sent. */
    noAnswer(): Error;
    failed(error: unknown): Error;
  };
}
