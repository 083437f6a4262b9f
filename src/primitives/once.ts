import { checkCount, checkName, checkTrait, checkType, DAY_MS } from '../checks.ts';
import type { Core } from '../core.ts';
import { type AcquireRequest, acquire, tryAcquire } from '../hold/acquire.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { ClaimHold, type Hold } from '../hold/hold.ts';
import { runHeld } from '../hold/run.ts';
import { type AcquireOptions, resolve } from '../options.ts';
import type { StoredClaim } from '../store/store.ts';
import { DONE, storedName } from '../use.ts';
import { isStoreError } from '../util/error-code.ts';
import { EXCLUSIVE } from './mutex.ts';

/**
 * As for `acquire`, and how long to remember. `waitMs` is 0 unless the call itself sets it. With a
 * longer wait, the call waits for the run in progress, and runs the function itself when that run
 * died or threw.
 */
export interface OnceOptions extends AcquireOptions {
  /** How long a finished run is remembered. Default 24 h, 366 days at most. */
  readonly rememberMs?: number | undefined;
}

/**
 * `ran: false` says why not: another process runs it now (`running`), or the run has finished and
 * is still remembered (`done`).
 */
export type OnceOutcome<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly why: 'running' | 'done' };

const REMEMBER_MAX_MS = 366 * DAY_MS;

/** Runs the function unless it runs elsewhere or a finished run is remembered. */
export async function once<T>(
  core: Core,
  name: string,
  fn: (hold: Hold) => T | Promise<T>,
  options: OnceOptions = {},
): Promise<OnceOutcome<T>> {
  checkTrait(core.store, 'remembers', 'once');
  checkType('options', options, 'object');
  const { rememberMs = DAY_MS } = options;
  checkName(name);
  checkType('fn', fn, 'function');
  checkCount('rememberMs', rememberMs, 1, REMEMBER_MAX_MS);
  const settings = { ...resolve(core.settings, options, ['rememberMs']), waitMs: options.waitMs ?? 0 };
  const held = await claimRun(core, { name: storedName('once', name), mode: EXCLUSIVE, settings });
  if (typeof held === 'string') return { ran: false, why: held };
  // A finished run is a claim that stays instead of being released. A function that throws
  // releases its claim, so that another process can try.
  const value = await runHeld(new ClaimHold(core, held), fn, () => held.leaveBehind(rememberMs, DONE));
  return { ran: true, value };
}

/** The claim to run, or why there is none. */
async function claimRun(core: Core, request: AcquireRequest): Promise<HeldClaim | 'running' | 'done'> {
  const { name, settings } = request;
  if (settings.waitMs === 0)
    return (await tryAcquire(core, request)) ?? ((await doneClaim(core, name)) ? 'done' : 'running');
  return (await acquire(core, { ...request, isDone: () => isSurelyDone(core, name) }, false)) ?? 'done';
}

/** The claim of a finished run that is remembered. */
async function doneClaim(core: Core, name: string): Promise<StoredClaim | undefined> {
  const claims = await core.read(name);
  return claims.find((claim) => claim.granted && claim.note === DONE);
}

/**
 * During a wait, a read that fails does not end the wait: it is repeated after the next refusal.
 */
async function isSurelyDone(core: Core, name: string): Promise<boolean> {
  try {
    return (await doneClaim(core, name)) !== undefined;
  } catch (error) {
    if (isStoreError(error)) return false;
    throw error;
  }
}

/** A finished run may run again. False when no finished run is remembered. */
export async function forget(core: Core, name: string): Promise<boolean> {
  const stored = storedName('once', checkName(name));
  const done = await doneClaim(core, stored);
  if (done === undefined) return false;
  const ref = { name: stored, id: done.id };
  return await core.during(core.commands.run((signal) => core.store.evict(ref, signal)));
}
