import { systemClock } from '../clock.ts';
import type { ClaimOutcome, ClaimRequest, Mode, Store, Traits } from '../store/store.ts';

/** What a case needs to know of the store under test. */
export interface StoreEnv {
  /** Another connection to the same data, as another process has it. */
  open(options?: { lineMax?: number | undefined }): Promise<Store>;
  /** Lets so much time pass for the store: sleeps, or moves a virtual clock. */
  pass(ms: number): Promise<void>;
  /** The shortest TTL that the store really keeps. Default 300. */
  readonly ttlMs?: number | undefined;
  /** Time is virtual and costs nothing, so that cases may wait for a minute. Default false. */
  readonly timeIsFree?: boolean | undefined;
}

/**
 * One thing that every store must do. Cases are data: run them from any test runner. Each opens what it needs and uses names that no other case uses.
 */
export interface StoreCase {
  readonly name: string;
  /** The rule of the contract (`store.ts`) that it belongs to. */
  readonly rule: number;
  /** Why this case does not apply to such a store, or `null` when it does. */
  leftOut(traits: Traits, env: StoreEnv): string | null;
  run(env: StoreEnv): Promise<void>;
}

export const EXCLUSIVE: Mode = { kind: 'exclusive' };
export const SHARED: Mode = { kind: 'shared' };
export const permits = (count: number, of: number): Mode => ({ kind: 'permits', count, of });

/** Long enough that nothing runs out while a case runs. */
export const LONG_MS = 60_000;

let unique = 0;
const run = Math.random().toString(36).slice(2, 10);

/** A name that nobody has used before, in this run or an earlier one. */
export function freshName(label = 'case'): string {
  unique += 1;
  return `${label}-${run}-${unique}`;
}

export function freshId(owner = 'case'): string {
  unique += 1;
  return `${owner}#${run.padEnd(12, '0')}.${unique.toString(36)}`;
}

export type Terms = Partial<Omit<ClaimRequest, 'name'>>;

/** A claim request with what a case does not care about filled in. */
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

/** Asks again, as the core does, until it is granted; fails after `budgetMs`. */
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

/** What cases leave between a moment that they look at and the end of a time to live, as a share of that. */
const ROOM_SHARE = 0.4;
const TIMED_TRIES = 4;

/**
 * Runs what must be done before a time to live is over. A failure on a machine that stood still meanwhile says nothing of the store: then, and only then, it is
 * tried again with three times as long a time to live.
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
      return await body({ open: (options) => env.open(options), pass, timeIsFree: env.timeIsFree, ttlMs });
    } catch (error) {
      const lateMs = systemClock.monotonicMs() - startedMs - askedMs;
      if (tries === TIMED_TRIES || lateMs < ttlMs * ROOM_SHARE) throw error;
    }
  }
}

/** Runs a case with stores that are closed afterwards, whatever happens. */
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

/** A case on two connections, for every store unless told otherwise. */
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
export const needsBoth =
  (...needs: StoreCase['leftOut'][]): StoreCase['leftOut'] =>
  (traits, env) =>
    needs.map((need) => need(traits, env)).find((reason) => reason !== null) ?? null;
