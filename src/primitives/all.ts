import { checkDuration, checkFunction, checkName } from '../checks.ts';
import type { Core } from '../core.ts';
import { AcquireTimeoutError, InvalidArgumentError } from '../errors.ts';
import { acquire, tryAcquire } from '../hold/acquire.ts';
import type { Grant } from '../hold/grant.ts';
import type { Hold } from '../hold/hold.ts';
import { pause } from '../hold/pause.ts';
import { runHeld } from '../hold/run.ts';
import { type AcquireOptions, DEFAULTS, resolve, type Settings } from '../options.ts';
import type { Lockable } from './lockable.ts';
import { EXCLUSIVE } from './mutex.ts';

/** Several locks held at once. There is no common fence: ask for each lock's own. */
export interface HoldAll extends Omit<Hold, 'fence' | 'name'> {
  /** Sorted, each once. */
  readonly names: readonly string[];
  /** Throws `InvalidArgumentError` for a name that is not among them. */
  fenceOf(name: string): bigint;
}

/**
 * All of these locks or none. They are taken one after the other in the order of their names' bytes, the same in every program, so that no two can wait for each
 * other in a circle; what was taken is given back when one cannot be had.
 */
export class AllLock implements Lockable<HoldAll> {
  readonly #core: Core;
  readonly #names: readonly string[];
  readonly #settings: Settings;

  constructor(core: Core, names: readonly string[], options?: AcquireOptions) {
    if (!Array.isArray(names) || names.length === 0)
      throw new InvalidArgumentError('names', 'must be a list of at least one name');
    for (const name of names) checkName(name, 'names');
    this.#core = core;
    this.#names = [...new Set<string>(names)].sort(byBytes);
    this.#settings = resolveAll(core.settings, options);
  }

  async acquire(options?: AcquireOptions): Promise<HoldAll> {
    const settings = resolveAll(this.#settings, options);
    const startedMs = this.#core.clock.monotonicMs();
    const waitedMs = (): number => this.#core.clock.monotonicMs() - startedMs;
    for (;;) {
      const hold = await this.#take((name, id) => {
        const waitMs = Math.max(settings.waitMs - waitedMs(), 0);
        return acquire(this.#core, { name, id, mode: EXCLUSIVE, settings: { ...settings, waitMs } });
      }).catch((error: unknown) => {
        if (!(error instanceof AcquireTimeoutError)) throw error;
        throw new AcquireTimeoutError(error.lock, waitedMs(), error.holders, error.position);
      });
      if (hold !== null) return hold;
      // One of the first was lost while we waited for the last: begin again with what is left of the wait.
      if (waitedMs() >= settings.waitMs) throw new AcquireTimeoutError(this.#names.join(', '), waitedMs());
    }
  }

  async tryAcquire(options?: Omit<AcquireOptions, 'waitMs'>): Promise<HoldAll | null> {
    const settings = resolveAll(this.#settings, options);
    return await this.#take((name, id) => tryAcquire(this.#core, { name, id, mode: EXCLUSIVE, settings }));
  }

  async run<T>(fn: (hold: HoldAll) => T | Promise<T>, options?: AcquireOptions): Promise<T> {
    checkFunction('fn', fn);
    return await runHeld(await this.acquire(options), fn);
  }

  async #take(takeOne: (name: string, id: string) => Promise<Grant | null>): Promise<HoldAll | null> {
    const id = this.#core.nextId();
    const grants: Grant[] = [];
    try {
      for (const [index, name] of this.#names.entries()) {
        const grant = await takeOne(name, `${id}.${index}`);
        if (grant === null) break;
        grants.push(grant);
      }
    } catch (error) {
      await this.#giveBack(grants);
      throw error;
    }
    if (grants.length === this.#names.length && grants.every((grant) => grant.remainingMs() > 0)) {
      return new GrantsHold(this.#core, id, grants);
    }
    await this.#giveBack(grants);
    return null;
  }

  /** Not for long: a release that fails is tried again in the background, and must not hide why we give them back. */
  async #giveBack(grants: readonly Grant[]): Promise<void> {
    const given = Promise.allSettled(grants.map((grant) => grant.release()));
    await Promise.race([given, pause(this.#core.clock, DEFAULTS.explainMs)]);
  }
}

function resolveAll(base: Settings, options: AcquireOptions | undefined): Settings {
  const settings = resolve(base, options);
  if (settings.reentrant) throw new InvalidArgumentError('reentrant', 'is not for several locks at once');
  return settings;
}

/** UTF-8 order, which is the order of code points and not that of JavaScript's UTF-16 units. */
function byBytes(a: string, b: string): number {
  return Buffer.compare(Buffer.from(a), Buffer.from(b));
}

class GrantsHold implements HoldAll {
  readonly id: string;
  readonly names: readonly string[];
  readonly #core: Core;
  readonly #grants: readonly Grant[];
  #signal: AbortSignal | null = null;
  /** An own function property, as that of a `Hold`: no copy of it can be sent to a thread. */
  readonly toJSON = (): object => ({
    names: this.names,
    id: this.id,
    remainingMs: Math.floor(this.remainingMs),
  });

  constructor(core: Core, id: string, grants: readonly Grant[]) {
    this.#core = core;
    this.id = id;
    this.#grants = grants;
    this.names = grants.map((grant) => grant.ref.name);
  }

  fenceOf(name: string): bigint {
    const grant = this.#grants.find((each) => each.ref.name === name);
    if (grant === undefined)
      throw new InvalidArgumentError('name', `${JSON.stringify(name)} is not among the locks held`);
    return grant.fence;
  }

  get signal(): AbortSignal {
    // Each part's own signal notices a loss by time when asked.
    const parts = this.#grants.map((grant) => grant.signal);
    this.#signal ??= AbortSignal.any(parts);
    return this.#signal;
  }

  get remainingMs(): number {
    return Math.min(...this.#grants.map((grant) => grant.remainingMs()));
  }

  assertHeld(): void {
    for (const grant of this.#grants) grant.assertHeld();
  }

  async extend(ttlMs?: number): Promise<void> {
    if (ttlMs !== undefined) checkDuration('ttlMs', ttlMs);
    await Promise.all(this.#grants.map((grant) => this.#core.keepalive.extend(grant, ttlMs ?? grant.ttlMs)));
  }

  /** True when this call gave all of them up. All are tried before the first failure is thrown. */
  async release(): Promise<boolean> {
    const results = await Promise.allSettled(this.#grants.map((grant) => grant.release()));
    const failed = results.find((result) => result.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    return results.every((result) => result.status === 'fulfilled' && result.value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release().catch(() => {});
  }
}
