import { systemClock } from '../clock.ts';
import type { ClaimOutcome, ClaimRequest, Mode, Store, Traits } from '../store/store.ts';

/** What a case needs of the store under test. */
export interface StoreEnv {
  /** Another connection to the same data, as another process has it. */
  open(options?: { queueMax?: number | undefined }): Promise<Store>;
  /** Lets time pass for the store: sleeps, or moves a virtual clock. */
  pass(ms: number): Promise<void>;
  /** The shortest TTL that the store really keeps. Default 300. */
  readonly ttlMs?: number | undefined;
  /**
   * Whether an eviction is reported at once. Default: whether the store has `onEvicted`. Set it to
   * false where no message can arrive, behind a transaction pooler for example.
   */
  readonly pushesEvictions?: boolean | undefined;
  /** Time is virtual and costs nothing, so cases may wait for a minute. Default false. */
  readonly timeIsFree?: boolean | undefined;
}

/**
 * One behaviour that every store must have. Cases are data: run them from any test runner. Each
 * opens its own connections and uses names that no other case uses.
 */
export interface StoreCase {
  readonly name: string;
  /** The rule of the contract (`store.ts`) that the case belongs to. */
  readonly rule: number;
  /** Why this case does not apply to such a store, or `null` when it does. */
  leftOut(traits: Traits, env: StoreEnv): string | null;
  run(env: StoreEnv): Promise<void>;
}

export const EXCLUSIVE: Mode = { kind: 'exclusive' };
export const SHARED: Mode = { kind: 'shared' };
export const permits = (count: number, of: number): Mode => ({ kind: 'permits', count, of });

/** A subscription is up by then, also on a busy machine. The waiter is woken when it comes up. */
export const SUBSCRIBED_MS = 250;
/** Long enough that nothing expires during a case. */
export const LONG_MS = 60_000;

let unique = 0;
const run = Math.random().toString(36).slice(2, 10);

/** A name that was never used before, in this run or an earlier one. */
export function freshName(label = 'case'): string {
  unique += 1;
  return `${label}-${run}-${unique}`;
}

export function freshId(owner = 'case'): string {
  unique += 1;
  return `${owner}#${run.padEnd(12, '0')}.${unique.toString(36)}`;
}

export type Terms = Partial<Omit<ClaimRequest, 'name'>>;

/** A claim request with defaults for what a case does not care about. */
export function request(name: string, terms: Terms = {}): ClaimRequest {
  return {
    name,
    id: freshId(),
    mode: EXCLUSIVE,
    ttlMs: LONG_MS,
    wait: false,
    note: '',
    fenceAbove: 0n,
    ...terms,
  };
}

/** Claims again, as the core does, until the claim is granted; fails after `budgetMs`. */
export async function claimUntilGranted(
  env: StoreEnv,
  store: Store,
  wanted: ClaimRequest,
  budgetMs: number,
): Promise<Extract<ClaimOutcome, { granted: true }>> {
  let spentMs = 0;
  for (;;) {
    const outcome = await store.claim(wanted);
    if (outcome.granted) return outcome;
    if (spentMs >= budgetMs) throw new Error(`not granted within ${budgetMs} ms`);
    const stepMs = Math.min(Math.max(outcome.retryAfterMs ?? 50, 1), budgetMs - spentMs, 250);
    await env.pass(stepMs);
    spentMs += Math.max(stepMs, 1);
  }
}

/** The margin that cases keep before the end of a TTL, as a share of the TTL. */
const ROOM_SHARE = 0.4;
const TIMED_TRIES = 4;

/**
 * Runs a check that must end before a TTL does. A failure on a machine that was stalled meanwhile
 * says nothing about the store: then, and only then, the check is run again with three times the
 * TTL.
 */
export async function inTime(env: StoreEnv, body: (timed: StoreEnv & { ttlMs: number }) => Promise<void>) {
  let ttlMs = env.ttlMs ?? 300;
  for (let tries = 1; ; tries += 1, ttlMs *= 3) {
    const startedMs = systemClock.monotonicMs();
    let askedMs = 0;
    const pass = async (ms: number): Promise<void> => {
      askedMs += ms;
      await env.pass(ms);
    };
    try {
      return await body({ ...env, open: (options) => env.open(options), pass, ttlMs });
    } catch (error) {
      const lateMs = systemClock.monotonicMs() - startedMs - askedMs;
      if (tries === TIMED_TRIES || lateMs < ttlMs * ROOM_SHARE) throw error;
    }
  }
}

/** Runs a case with stores that are closed afterwards in every case. */
export function withStores(
  count: number,
  body: (env: StoreEnv, ...stores: Store[]) => Promise<void>,
): (env: StoreEnv) => Promise<void> {
  return async (env) => {
    const stores: Store[] = [];
    try {
      for (let n = 0; n < count; n += 1) stores.push(await env.open());
      await body(env, ...stores);
    } finally {
      await Promise.all(stores.map((store) => store.close()));
    }
  };
}

type Body<Env = StoreEnv> = (env: Env, a: Store, b: Store) => Promise<void>;

/** A case on two connections, for every store unless `leftOut` gives a reason. */
export function storeCase(
  rule: number,
  name: string,
  body: Body,
  leftOut: StoreCase['leftOut'] = () => null,
): StoreCase {
  return {
    rule,
    name,
    leftOut,
    run: withStores(2, body as (env: StoreEnv, ...stores: Store[]) => Promise<void>),
  };
}

/** A case about time, on two connections: see `inTime`. */
export function timedCase(rule: number, name: string, body: Body<StoreEnv & { ttlMs: number }>): StoreCase {
  const run: Body = (env, a, b) => inTime(env, (timed) => body(timed, a, b));
  return storeCase(rule, name, run, needsLease);
}

export const needsOrder: StoreCase['leftOut'] = (traits) =>
  traits.ordered ? null : 'the store keeps no order';
export const needsCounting: StoreCase['leftOut'] = (traits) =>
  traits.counting ? null : 'the store cannot count permits';
export const needsLease: StoreCase['leftOut'] = (traits) =>
  traits.lifetime === 'lease' ? null : 'claims live as long as the session, not for a TTL';
export const needsMemory: StoreCase['leftOut'] = (traits) =>
  traits.remembers ? null : 'the store does not remember';
export const needsBoth =
  (...needs: StoreCase['leftOut'][]): StoreCase['leftOut'] =>
  (traits, env) =>
    needs.map((need) => need(traits, env)).find((reason) => reason !== null) ?? null;
