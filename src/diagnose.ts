import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Core } from './core.ts';
import {
  type DiagnoseContext,
  type Finding,
  fail,
  ok,
  runCheck,
  unknown,
  type Verdict,
  warn,
} from './store/finding.ts';
import { CONNECT_NAME, firstAnswer } from './store/first-answer.ts';
import type { Traits } from './store/store.ts';
import { pause } from './util/backoff.ts';
import { errorText } from './util/error-text.ts';

/** How often the round trip is measured. */
const ROUND_TRIPS = 5;
/** For how long the delay of the event loop is sampled, and how often. */
const SAMPLE_MS = 250;
const RESOLUTION_MS = 10;
const NS_PER_MS = 1e6;

/** The share of the TTL from which on a delay is a risk. */
const TTL_WARN_SHARE = 1 / 10;
/** A hold is renewed after a third of its TTL. A delay of another third leaves time for one try. */
const TTL_FAIL_SHARE = 1 / 3;
/** The same for the time limit of a command, which may have to wait for a node that is silent. */
const LIMIT_WARN_SHARE = 1 / 4;
const LIMIT_FAIL_SHARE = 1 / 2;

/**
 * The checks of the store, and those that hold for every store. Rejects when nothing was found out
 * about the server, with the error that says why.
 */
export async function diagnose(core: Core): Promise<Finding[]> {
  const { clock, commands, settings, store } = core;
  const limits = { clock, ttlMs: settings.ttlMs, commandMs: commands.limitMs };
  const [{ answer, own }, eventLoop] = await Promise.all([
    core.untilReached((limitMs) => reach(core, limits, limitMs)),
    eventLoopDelay(limits),
  ]);
  const findings = 'error' in own ? [noChecks(own.error)] : own.value;
  return [
    ...('error' in answer ? refusal(answer.error, findings) : [answers()]),
    ...('error' in answer ? [] : await roundTrips(core, limits)),
    { check: 'event-loop-delay', ...eventLoop },
    { check: 'store-capabilities', ...capabilities(store.traits) },
    ...findings,
  ];
}

interface Reached {
  readonly answer: Settled<void>;
  /** The findings of the store itself. */
  readonly own: Settled<readonly Finding[]>;
}

/** Rejects with the error of the store when none of its checks has reached the server either. */
async function reach({ commands, store }: Core, limits: Limits, limitMs: number): Promise<Reached> {
  const check = async (signal: AbortSignal): Promise<readonly Finding[]> =>
    (await store.diagnose?.({ ...limits, limitMs, signal })) ?? [];
  const [answer, own] = await Promise.all([
    settled(commands.run((signal) => firstAnswer(store, signal), limitMs)),
    settled(commands.run(check, limitMs)),
  ]);
  const isReached = 'value' in own && own.value.some(({ level }) => level !== 'unknown');
  if ('error' in answer && !isReached) throw answer.error;
  return { answer, own };
}

type Settled<T> = { readonly value: T } | { readonly error: unknown };

async function settled<T>(work: Promise<T>): Promise<Settled<T>> {
  try {
    return { value: await work };
  } catch (error) {
    return { error };
  }
}

function answers(): Finding {
  return { check: 'store-answers', ...ok('the store answers', 'Locks can be acquired.') };
}

/** The server was reached, and the store cannot use it. A check of the store that failed says why. */
function refusal(error: unknown, own: readonly Finding[]): Finding[] {
  if (own.some(({ level }) => level === 'fail')) return [];
  const means = 'No lock can be acquired, renewed or released.';
  return [{ check: 'store-answers', ...fail(errorText(error), means, 'See the other findings.') }];
}

function noChecks(error: unknown): Finding {
  const means = 'The settings of the server were not checked.';
  return { check: 'store-checks', ...unknown(errorText(error), means, 'Run the diagnosis again.') };
}

type Limits = Omit<DiagnoseContext, 'limitMs' | 'signal'>;

async function roundTrips(core: Core, limits: Limits): Promise<Finding[]> {
  const never = new AbortController();
  const measured = settled(worstRoundTripMs(core));
  const judge = (run: (ms: number) => Verdict) => async (): Promise<Verdict> => {
    const worst = await measured;
    if ('error' in worst) throw worst.error;
    return run(worst.value);
  };
  const againstTtl = judge((ms) => roundTripAgainstTtl(ms, limits));
  const againstLimit = judge((ms) => roundTripAgainstLimit(ms, limits));
  return [
    await runCheck(never, 'round-trip-ttl', againstTtl),
    await runCheck(never, 'round-trip-command', againstLimit),
  ];
}

async function worstRoundTripMs({ clock, commands, store }: Core): Promise<number> {
  let worstMs = 0;
  for (let n = 0; n < ROUND_TRIPS; n += 1) {
    const sentMs = clock.monotonicMs();
    await commands.run((signal) => store.read(CONNECT_NAME, signal));
    worstMs = Math.max(worstMs, clock.monotonicMs() - sentMs);
  }
  return worstMs;
}

function roundTripAgainstTtl(ms: number, { ttlMs }: Limits): Verdict {
  const found = `the slowest of ${ROUND_TRIPS} round trips took ${shown(ms)} ms; ttlMs is ${ttlMs}`;
  const advice = 'Raise ttlMs, or move the program nearer to the store.';
  if (ms > ttlMs * TTL_FAIL_SHARE)
    return fail(found, 'A renewal may take too long, and then a hold that is in use is lost.', advice);
  if (ms > ttlMs * TTL_WARN_SHARE)
    return warn(found, 'One failed renewal leaves little time for another before the hold is lost.', advice);
  return ok(found, 'A failed renewal can be tried again before the hold is lost.');
}

function roundTripAgainstLimit(ms: number, { commandMs }: Limits): Verdict {
  const found = `the slowest of ${ROUND_TRIPS} round trips took ${shown(ms)} ms; commandMs is ${commandMs}`;
  const advice = 'Raise commandMs, or find out what slows the store down.';
  if (ms > commandMs * LIMIT_FAIL_SHARE)
    return fail(
      found,
      'Commands may end without an answer, and acquire fails although locks are free.',
      advice,
    );
  if (ms > commandMs * LIMIT_WARN_SHARE)
    return warn(found, 'A short slowdown makes commands end without an answer.', advice);
  return ok(found, 'Commands are answered well within their time limit.');
}

async function eventLoopDelay({ clock, ttlMs }: Limits): Promise<Verdict> {
  const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  delay.enable();
  await pause(clock, SAMPLE_MS, { keepAlive: true });
  delay.disable();
  const ms = Math.max(delay.max / NS_PER_MS - RESOLUTION_MS, 0);
  const found = `the event loop was late by up to ${shown(ms)} ms within ${SAMPLE_MS} ms; ttlMs is ${ttlMs}`;
  const advice = "Move long computations off the event loop, raise ttlMs, or use renewal: 'thread'.";
  if (ms > ttlMs * TTL_FAIL_SHARE)
    return fail(found, 'Renewals may start too late, and then a hold that is in use is lost.', advice);
  if (ms > ttlMs * TTL_WARN_SHARE)
    return warn(found, 'Renewals start late, and a hold learns late that it is lost.', advice);
  return ok(found, 'Renewals start in time, and a hold learns in time that it is lost.');
}

function capabilities(traits: Traits): Verdict {
  const found = [
    traits.lifetime === 'lease' ? 'each hold is a lease' : 'holds live as long as the session',
    traits.ordered ? 'first come, first served' : 'no order between processes',
    traits.counting ? 'counts permits' : 'no semaphores and rate limits',
    traits.remembers ? 'remembers finished runs' : 'no once and no schedules',
  ];
  const order = traits.ordered
    ? 'A waiter is not overtaken.'
    : 'A waiter may be overtaken by one that came later, any number of times.';
  return ok(found.join('; '), `Every hold has a fence. ${order}`);
}

function shown(ms: number): string {
  return ms < 10 ? ms.toFixed(1) : `${Math.round(ms)}`;
}
