import { setTimeout as sleep } from 'node:timers/promises';
import type { Locks } from '../../../src/index.ts';

/**
 * A promise that is awaited later. If the test fails before that, its rejection must not be
 * reported as one more failure.
 */
export function later<T>(promise: Promise<T>): Promise<T> {
  promise.catch(() => {});
  return promise;
}

/** Polls until the condition holds; fails after `ms`. */
export async function eventually(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  ms = 20_000,
): Promise<void> {
  for (const end = performance.now() + ms; ; ) {
    if (await isSo()) return;
    if (performance.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
    await sleep(10);
  }
}

/** The same, with a text that says what is wrong when the condition does not hold in time. */
export async function until(
  failure: string,
  isSo: () => Promise<boolean> | boolean,
  ms = 15_000,
): Promise<void> {
  for (const end = performance.now() + ms; performance.now() < end; await sleep(20)) if (await isSo()) return;
  throw new Error(failure);
}

/** Resolves after this many renewals of these locks from now on. */
export async function renewals(locks: Locks, count: number): Promise<void> {
  let seen = 0;
  const stop = locks.on('renewed', () => {
    seen += 1;
  });
  try {
    await eventually(`${count} renewals`, () => seen >= count);
  } finally {
    stop();
  }
}

/**
 * The shortest of a few measurements, in milliseconds; it stops at the first below `enoughMs`. A
 * busy machine makes some of them long, a defect makes all of them long.
 */
export async function shortest(enoughMs: number, measure: () => Promise<number>): Promise<number> {
  let best = Number.POSITIVE_INFINITY;
  for (let tries = 0; tries < 5 && best >= enoughMs; tries += 1) best = Math.min(best, await measure());
  return best;
}
