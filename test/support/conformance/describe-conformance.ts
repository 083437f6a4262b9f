import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Store, Traits } from '../../../src/store/store.ts';
import { type StoreCase, type StoreEnv, storeCases } from '../../../src/testing/index.ts';

interface Subject {
  readonly traits: Traits;
  /**
   * Another connection to the same data. Called only while tests run, so servers may be started in
   * `beforeAll`.
   */
  open(options?: { queueMax?: number | undefined }): Promise<Store>;
  readonly pass?: StoreEnv['pass'];
  readonly ttlMs?: number;
  /**
   * How an evicted holder learns of it. `pushed`, the default: at once. `unheard`: the store could push
   * it, but messages do not arrive here. `renewal`: the store cannot push it.
   */
  readonly evictions?: 'pushed' | 'unheard' | 'renewal';
  readonly timeIsFree?: boolean;
  /** Why a case cannot be run on this store; `null` when it can. */
  leftOut?(each: StoreCase): string | null;
  /**
   * Whether a case that ended with this error is run again, three times in all: the error
   * says that the machine was too slow, and nothing about the store.
   */
  wasTooSlow?(error: unknown): boolean;
}

const TRIES = 3;

/**
 * Runs the conformance suite on one store. A case that does not apply is not run, and printed
 * with its reason.
 */
export function describeConformance(name: string, subject: Subject): void {
  const env: StoreEnv = {
    open: subject.open,
    pass: subject.pass ?? (async (ms) => void (await sleep(ms))),
    ttlMs: subject.ttlMs,
    pushesEvictions: (subject.evictions ?? 'pushed') === 'pushed',
    timeIsFree: subject.timeIsFree,
  };
  const reasons = new Map(
    storeCases.map((each): [StoreCase, string | null] => [
      each,
      each.leftOut(subject.traits, env) ?? subject.leftOut?.(each) ?? null,
    ]),
  );
  const run = async (each: StoreCase): Promise<void> => {
    for (let tries = 1; ; tries += 1) {
      try {
        return await each.run(env);
      } catch (error) {
        if (tries === TRIES || subject.wasTooSlow?.(error) !== true) throw error;
      }
    }
  };
  describe(`${name} meets the contract`, () => {
    it('has the traits that its cases were chosen by', async () => {
      const store = await env.open();
      expect(store.traits).toEqual(subject.traits);
      expect(store.onEvicted !== undefined).toBe(subject.evictions !== 'renewal');
      await store.close();
    });
    for (const [each, reason] of reasons) {
      if (reason === null) it(`rule ${each.rule}: ${each.name}`, () => run(each));
      else console.log(`${name}: left out "${each.name}": ${reason}`);
    }
  });
}
