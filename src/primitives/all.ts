import { checkName, checkOneTry, checkType, wrong } from '../checks.ts';
import type { Core } from '../core.ts';
import { AcquireTimeoutError, InvalidArgumentError } from '../errors.ts';
import { acquire, tryAcquire } from '../hold/acquire.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { ClaimHold, type Hold, INSPECT } from '../hold/hold.ts';
import { runHeld } from '../hold/run.ts';
import { type AcquireOptions, DEFAULTS, resolve, type Settings } from '../options.ts';
import { pause } from '../util/backoff.ts';
import type { JsonObject } from '../util/json.ts';
import type { Lockable, TryRunOutcome } from './lockable.ts';
import { EXCLUSIVE } from './mutex.ts';

/**
 * Several locks held at once. There is no common fence: each lock has its own, from `fenceOf`. Each
 * lock has a claim of its own, whose id begins with this `id`.
 */
export interface HoldAll extends Omit<Hold, 'fence' | 'name'> {
  /** Sorted, each once. */
  readonly names: readonly string[];
  /** Throws `InvalidArgumentError` for a name that is not among them. */
  fenceOf(name: string): bigint;
}

/**
 * All of these locks or none. First each lock is tried once, without waiting; a store may send
 * these claims as one batch. When that fails, the locks are acquired one after the other in the
 * order of their names' bytes, the same in every program, so that no cycle of waiters can arise.
 * When one of them cannot be acquired, the others are released.
 */
export class AllLock implements Lockable<HoldAll> {
  readonly #core: Core;
  readonly #names: readonly string[];
  readonly #settings: Settings;

  constructor(core: Core, names: readonly string[], options?: AcquireOptions) {
    if (!Array.isArray(names) || names.length === 0)
      throw wrong('names', 'a list of at least one name', names);
    for (const name of names) checkName(name, 'names');
    this.#core = core;
    this.#names = [...new Set<string>(names)].sort(byBytes);
    this.#settings = resolveAll(core.settings, options);
  }

  async acquire(options?: AcquireOptions): Promise<HoldAll> {
    const settings = resolveAll(this.#settings, options);
    const { clock } = this.#core;
    const startedMs = clock.monotonicMs();
    const atOnce = this.#names.length > 1 && (await this.#takeAtOnce(settings, true).catch(() => null));
    if (atOnce) return atOnce;
    for (;;) {
      const hold = await this.#takeInTurn(settings, startedMs);
      if (hold !== null) return hold;
      // A lock that was acquired earlier was lost during the wait for a later one: start again with
      // the rest of the wait.
      const waitedMs = clock.monotonicMs() - startedMs;
      if (waitedMs >= settings.waitMs) throw new AcquireTimeoutError(this.#names.join(', '), waitedMs);
    }
  }

  async tryAcquire(options?: Omit<AcquireOptions, 'waitMs'>): Promise<HoldAll | null> {
    checkOneTry(options, 'acquire');
    return await this.#takeAtOnce(resolveAll(this.#settings, options), false);
  }

  async run<T>(fn: (hold: HoldAll) => T | Promise<T>, options?: AcquireOptions): Promise<T> {
    checkType('fn', fn, 'function');
    return await runHeld(await this.acquire(options), fn);
  }

  async tryRun<T>(
    fn: (hold: HoldAll) => T | Promise<T>,
    options?: Omit<AcquireOptions, 'waitMs'>,
  ): Promise<TryRunOutcome<T>> {
    checkType('fn', fn, 'function');
    checkOneTry(options, 'run');
    const hold = await this.tryAcquire(options);
    return hold === null ? { ran: false } : { ran: true, value: await runHeld(hold, fn) };
  }

  /** Waits for none of them. `isQuiet`: a refusal is not final, so no event reports it. */
  async #takeAtOnce(settings: Settings, isQuiet: boolean): Promise<HoldAll | null> {
    const id = this.#core.ids.next();
    const tries = this.#names.map((name, n) =>
      tryAcquire(this.#core, { name, id: `${id}.${n}`, mode: EXCLUSIVE, settings, isQuiet }),
    );
    const settled = (await Promise.allSettled(tries)) as { readonly value?: HeldClaim | null }[];
    const hold = await this.#keep(
      id,
      settled.flatMap(({ value }) => (value ? new ClaimHold(this.#core, value) : [])),
    );
    // Throws the first error.
    await Promise.all(tries);
    return hold;
  }

  async #takeInTurn(settings: Settings, startedMs: number): Promise<HoldAll | null> {
    const id = this.#core.ids.next();
    const holds: Hold[] = [];
    let all: HoldAll | null = null;
    try {
      for (const name of this.#names) {
        const request = { name, id: `${id}.${holds.length}`, mode: EXCLUSIVE, settings, startedMs };
        holds.push(new ClaimHold(this.#core, await acquire(this.#core, request)));
      }
    } finally {
      all = await this.#keep(id, holds);
    }
    return all;
  }

  /** All of them, or none: then those that were acquired are released. */
  async #keep(id: string, holds: readonly Hold[]): Promise<HoldAll | null> {
    if (holds.length === this.#names.length && holds.every((hold) => hold.remainingMs > 0))
      return new Holds(id, holds);
    const released = Promise.allSettled(holds.map((hold) => hold.release()));
    // A release that fails is retried in the background. It must neither delay nor hide the reason
    // for the release.
    await Promise.race([released, pause(this.#core.clock, DEFAULTS.settleMs)]);
    return null;
  }
}

function resolveAll(base: Settings, options: AcquireOptions | undefined): Settings {
  const settings = resolve(base, options);
  if (settings.reentrant) throw new InvalidArgumentError('reentrant', 'cannot be used with several locks');
  return settings;
}

/** UTF-8 order, which is the order of code points and not that of JavaScript's UTF-16 units. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

class Holds implements HoldAll {
  readonly id: string;
  readonly names: readonly string[];
  readonly #holds: readonly Hold[];
  #signal: AbortSignal | null = null;
  /** An own function property, as on a `Hold`: no copy of the object can be sent to a thread. */
  readonly toJSON = (): object => ({
    names: this.names,
    id: this.id,
    owner: this.owner,
    metadata: this.metadata,
    heldForMs: Math.floor(this.heldForMs),
    fences: Object.fromEntries(this.#holds.map(({ name, fence }) => [name, fence.toString()])),
    remainingMs: Math.floor(this.remainingMs),
  });

  constructor(id: string, holds: readonly Hold[]) {
    this.id = id;
    this.#holds = holds;
    this.names = holds.map((hold) => hold.name);
  }

  [INSPECT](): object {
    return this.toJSON();
  }

  fenceOf(name: string): bigint {
    const hold = this.#holds.find((each) => each.name === name);
    if (hold === undefined) throw new InvalidArgumentError('name', 'is not among the locks held');
    return hold.fence;
  }

  get signal(): AbortSignal {
    // Reading the signal of each part notices a loss by time.
    const parts = this.#holds.map((hold) => hold.signal);
    this.#signal ??= AbortSignal.any(parts);
    return this.#signal;
  }

  get owner(): string {
    return this.#holds[0]?.owner ?? '';
  }

  get metadata(): JsonObject | null {
    return this.#holds[0]?.metadata ?? null;
  }

  get heldForMs(): number {
    return Math.min(...this.#holds.map((hold) => hold.heldForMs));
  }

  get remainingMs(): number {
    return Math.min(...this.#holds.map((hold) => hold.remainingMs));
  }

  assertHeld(): void {
    for (const hold of this.#holds) hold.assertHeld();
  }

  async extend(ttlMs?: number): Promise<void> {
    await Promise.all(this.#holds.map((hold) => hold.extend(ttlMs)));
  }

  /** True when this call released all of them. All are tried before the first failure is thrown. */
  async release(): Promise<boolean> {
    const releases = this.#holds.map((hold) => hold.release());
    await Promise.allSettled(releases);
    return (await Promise.all(releases)).every(Boolean);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }
}
