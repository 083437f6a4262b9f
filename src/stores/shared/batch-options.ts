import type { Clock } from '../../clock.ts';

/** The outcome of one request. `retryMs`: nothing was done; it is sent again after this delay. */
export type Answer<Result> =
  | { readonly value: Result }
  | { readonly error: Error }
  | { readonly retryMs: number };

/** A pending call, for the backend. Requests are identified by their position in the call. */
export interface CallInfo {
  /** False once the caller has given up the request: it need not be carried out. */
  isWanted(position: number): boolean;
  /** How often this request was sent before this call. */
  triesOf(position: number): number;
  /** Called when every caller has given up. The answer may never come. */
  onAbandoned: (() => void) | null;
}

/** A request whose call has failed. */
export interface FailedRequest {
  /** How often the request has been sent, this time included. */
  readonly tries: number;
  /** Since the request was first sent. */
  readonly elapsedMs: number;
}

/**
 * `fail`: the request is rejected. `alone`: one request made the call fail and nothing was done, so
 * each request is sent in a call of its own; a request that was alone is rejected. `againMs`:
 * nothing was done, so the request is sent again after this delay, before all others.
 */
export type FailureVerdict = 'fail' | 'alone' | { readonly againMs: number };

export type Send<Request, Result> = (
  requests: readonly Request[],
  call: CallInfo,
) => Promise<readonly Answer<Result>[]>;

export interface BatchOptions<Request, Result> {
  readonly clock: Clock;
  /** The most requests in one call: a long call keeps all other requests waiting. */
  readonly itemsMax: number;
  /** The most pending calls. More of them only make each batch smaller. */
  readonly callsMax: number;
  /**
   * How many abandoned calls may be unanswered before no more calls are sent: the client library
   * keeps each of them until the connection breaks. Default: any number.
   */
  readonly abandonedMax?: number;
  /**
   * While no call is pending, more requests than this are sent as two calls, so that the server
   * works on one while the answers to the other are read. Default: never.
   */
  readonly halveAbove?: number;
  /**
   * While no call is pending, requests are gathered only until the running code has ended. Default:
   * until the end of the tick, as always while a call is pending.
   */
  readonly sendsAtOnce?: boolean;
  /** Sends these requests in one call, in this order. Resolves to their answers, in the same order. */
  readonly send: Send<Request, Result>;
  /** Whether a call can be sent now. Default: always. */
  isReady?(): boolean;
  /**
   * Calls back once: with `null` when a call can be sent, or with the reason why none can. All
   * queued requests are rejected with that reason.
   */
  whenReady?(callback: (refusal: Error | null) => void): void;
  /** The requests of a call are sorted by this; those that compare equal keep their order. */
  orderBy?(request: Request): string;
  /** Requests with a key in common are sent in different calls, in the order in which they came. */
  conflicts?(request: Request): readonly string[];
  /** This request never shares a call. */
  isAlone?(request: Request): boolean;
  /** What becomes of a request whose call has failed. Default: it is rejected. */
  onFailure?(error: unknown, failed: FailedRequest): FailureVerdict;
  /**
   * A request that was sent stays pending when its signal aborts, because its answer is needed.
   * Default: it is given up.
   */
  readonly keepsSent?: boolean;
  /** A caller has given up a request that was sent. */
  onNoAnswer?(): void;
  /** What callers are rejected with. */
  readonly errors: {
    /** The caller gave up before the request was sent. It is never sent. */
    notSent(): Error;
    /** The caller gave up after the request was sent. */
    noAnswer(): Error;
    failed(error: unknown): Error;
  };
}
