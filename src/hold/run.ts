import { HoldLostError } from '../errors.ts';
import { isStoreError } from '../util/error-code.ts';
import type { Hold } from './hold.ts';

type Runnable = Pick<Hold, 'release' | 'remainingMs' | 'signal'>;

/**
 * Runs `fn` under a hold and releases the hold in every case.
 *
 * | fn      | hold at its end | result                                                       |
 * |---------|-----------------|--------------------------------------------------------------|
 * | throws  | any             | fn's error; a failed release is attached as `releaseError`   |
 * | returns | held, released  | fn's value                                                   |
 * | returns | store silent    | fn's value, about 5 s later, and a `releaseFailed` event     |
 * | returns | lost            | `HoldLostError` with fn's value as its `value`               |
 */
export async function runHeld<H extends Runnable, T>(
  hold: H,
  fn: (hold: H) => T | Promise<T>,
  /** How to release the hold once the function has returned. */
  giveUp: () => Promise<boolean> = () => hold.release(),
): Promise<T> {
  let value: T;
  try {
    value = await fn(hold);
  } catch (error) {
    await hold.release().catch((releaseError: unknown) => attach(error, releaseError));
    throw error;
  }
  const lost = lossOf(hold);
  if (lost !== null || !(await givenUp(hold, giveUp))) {
    // Also when lost: the store may still have the claim, and others wait for the lock.
    if (lost !== null) await hold.release().catch(() => {});
    const { lock, fence, how, stall } = (lost ?? lossOf(hold)) as HoldLostError;
    throw new HoldLostError(lock, fence, how, value, stall);
  }
  return value;
}

function lossOf(hold: Runnable): HoldLostError | null {
  if (hold.remainingMs > 0) return null;
  return hold.signal.aborted ? (hold.signal.reason as HoldLostError) : null;
}

/**
 * False when the claim was gone. The function may have released it itself, or the store may be
 * silent: neither is a loss.
 */
async function givenUp(hold: Runnable, giveUp: () => Promise<boolean>): Promise<boolean> {
  try {
    return (await giveUp()) || lossOf(hold) === null;
  } catch (error) {
    if (isStoreError(error)) return true;
    throw error;
  }
}

function attach(error: unknown, releaseError: unknown): void {
  if (typeof error !== 'object' || error === null || !Object.isExtensible(error)) return;
  Object.defineProperty(error, 'releaseError', { value: releaseError, configurable: true, writable: true });
}
