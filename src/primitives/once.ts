import { checkDuration, checkName, checkTrait, checkType, DAY_MS } from '../checks.ts';
import type { Core } from '../core.ts';
import { asGrant, tryAcquire } from '../hold/acquire.ts';
import { GrantHold, type Hold } from '../hold/hold.ts';
import { runHeld } from '../hold/run.ts';
import { type AcquireOptions, resolve } from '../options.ts';
import { EXCLUSIVE } from './mutex.ts';
import { namespaced } from './namespace.ts';

/** As for `acquire`, and how long to remember. */
export interface OnceOptions extends AcquireOptions {
  /** How long a finished run is remembered. Default 24 h, which is also the most. */
  readonly rememberMs?: number | undefined;
}

/** `ran: false` says why not: another node is at it (`running`), or it has been done and is still remembered (`done`). */
export type OnceOutcome<T> =
  | { readonly ran: true; readonly value: T }
  | { readonly ran: false; readonly why: 'running' | 'done' };

/** The note of a claim whose work is done: it stays, unrenewed, until it has been remembered long enough. */
const DONE = '{"once":"done"}';

/** A finished run is a claim that is kept instead of released: whoever asks next finds it, and its note says that it is done. */
export async function once<T>(
  core: Core,
  name: string,
  fn: (hold: Hold) => T | Promise<T>,
  options: OnceOptions = {},
): Promise<OnceOutcome<T>> {
  checkTrait(core.store, 'remembers', 'once');
  const { rememberMs = DAY_MS, ...rest } = checkType('options', options, 'object');
  checkName(name);
  checkType('fn', fn, 'function');
  checkDuration('rememberMs', rememberMs);
  const want = {
    name: namespaced('once', name),
    mode: EXCLUSIVE,
    settings: resolve(core.settings, rest),
  } as const;
  const grant = await tryAcquire(core, want, asGrant);
  if (grant === null) return { ran: false, why: await whyNot(core, want.name) };
  // A function that throws gives the claim up for good, and so lets another node try.
  const value = await runHeld(new GrantHold(core, grant), fn, () => grant.leaveBehind(rememberMs, DONE));
  return { ran: true, value };
}

async function whyNot(core: Core, name: string): Promise<'running' | 'done'> {
  const claims = await core.read(name);
  return claims.some((claim) => claim.granted && claim.note === DONE) ? 'done' : 'running';
}
