import type { Clock } from '../clock.ts';
import { onAbort } from '../util/abort.ts';
import { errorText } from '../util/error-text.ts';

/**
 * `ok`: nothing to do. `warn`: works, with a risk or a cost. `fail`: a promise of the locks does not
 * hold. `unknown`: the check itself failed.
 */
export type FindingLevel = 'ok' | 'warn' | 'fail' | 'unknown';

/** The result of one check of a set-up: one line of `holdfast doctor`. */
export interface Finding {
  /** The name of the check, which does not change between versions: `redis-eviction-policy`. */
  readonly check: string;
  readonly level: FindingLevel;
  /** What was found. Never holds a password. */
  readonly found: string;
  /** What that means for exclusion, fences and handoff. */
  readonly means: string;
  /** What to do; `null` when there is nothing to do. */
  readonly advice: string | null;
}

/** What a store needs for its checks. */
export interface DiagnoseContext {
  readonly clock: Clock;
  /** The TTL of holds that set none. */
  readonly ttlMs: number;
  /** The time limit of one command. */
  readonly commandMs: number;
  /** The time limit of the whole diagnosis of the store: what is left after earlier tries to connect. */
  readonly limitMs: number;
  /** Aborts at `limitMs`. Checks without a result by then are `unknown`. */
  readonly signal: AbortSignal;
}

/** A finding without the name of its check. */
export type Verdict = Omit<Finding, 'check'>;

export function ok(found: string, means: string): Verdict {
  return { level: 'ok', found, means, advice: null };
}

export function warn(found: string, means: string, advice: string): Verdict {
  return { level: 'warn', found, means, advice };
}

export function fail(found: string, means: string, advice: string): Verdict {
  return { level: 'fail', found, means, advice };
}

export function unknown(why: string, means: string, advice: string | null = null): Verdict {
  return { level: 'unknown', found: why, means, advice };
}

/** A check and its name. */
export interface Check {
  readonly check: string;
  readonly run: () => Promise<Verdict> | Verdict;
}

/**
 * Runs one check. Never rejects: a check that fails, or has no result when the signal aborts, is a
 * finding of level `unknown` that names the cause.
 */
export async function runCheck(
  context: Pick<DiagnoseContext, 'signal'>,
  check: string,
  run: () => Promise<Verdict> | Verdict,
): Promise<Finding> {
  try {
    return { check, ...(await beforeAbort(context.signal, run)) };
  } catch (error) {
    const means = 'This check had no result: what it checks may be right or wrong.';
    return { check, ...unknown(errorText(error), means) };
  }
}

function beforeAbort<T>(signal: AbortSignal, run: () => Promise<T> | T): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    signal.throwIfAborted();
    const stop = onAbort(signal, () => reject(signal.reason));
    Promise.resolve(run()).then(resolve, reject).finally(stop);
  });
}
