import { afterAll, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/clock.ts';
import { createLocks, type LocksOptions, memoryStore, type Store, StoreError } from '../../src/index.ts';
import { judgeClock } from '../../src/store/clock-check.ts';
import { ok, runCheck } from '../../src/store/finding.ts';
import { WrappedStore } from '../../src/store/wrapped-store.ts';
import { faultyStore } from '../../src/testing/index.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { diagnose, expectProblems, findingOf, problemsIn } from '../support/doctor/findings.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

/** A machine that is stalled for a moment is no problem for a TTL of this length. */
const UNHURRIED = { ttlMs: 3_600_000 };

/** A read takes two minutes by the clock of the locks, and no real time. */
class SlowStore extends WrappedStore {
  #passedMs = 0;
  readonly clock: Clock = {
    ...systemClock,
    monotonicMs: () => systemClock.monotonicMs() + this.#passedMs,
  };

  override read(name: string): ReturnType<Store['read']> {
    this.#passedMs += 120_000;
    return super.read(name);
  }
}

describe.concurrent('diagnose on any store', () => {
  it('finds nothing wrong with a memory store', async () => {
    await using locks = createLocks(memoryStore(), UNHURRIED);
    const findings = await locks.diagnose();
    expect(problemsIn(findings)).toEqual([]);
    expect(findings.map(({ check }) => check)).toEqual([
      'store-answers',
      'round-trip-ttl',
      'round-trip-command',
      'event-loop-delay',
      'store-capabilities',
      'memory-process',
    ]);
  });

  it('rejects with the error of the store when it is out of reach', async () => {
    const store = new WrappedStore(memoryStore());
    store.diagnose = async () => {
      throw new StoreError('no connection', { applied: 'no' });
    };
    const away = faultyStore(store, () => 'fail');
    await using locks = createLocks(away);
    await expect(locks.diagnose()).rejects.toMatchObject({ code: 'STORE', message: /^read failed/ });
  });

  it('reports a server that answers its checks but that the store refuses to use', async () => {
    const refused = faultyStore(memoryStore(), () => 'refuse');
    await using locks = createLocks(refused, UNHURRIED);
    const findings = await locks.diagnose();
    expect(problemsIn(findings)).toEqual(['store-answers: fail']);
    expect(findingOf(findings, 'store-answers').found).toBe('read was refused (fault)');
  });

  it('reports that the checks of the store failed', async () => {
    const store = new WrappedStore(memoryStore());
    store.diagnose = async () => {
      throw new StoreError('the connection broke', { applied: 'unknown' });
    };
    await using locks = createLocks(store, UNHURRIED);
    const findings = await locks.diagnose();
    expect(problemsIn(findings)).toEqual(['store-checks: unknown']);
    expect(findingOf(findings, 'store-checks').found).toBe('the connection broke');
  });

  it('measures the round trip against the TTL and against the time limit of a command', async () => {
    const problems = async (options: LocksOptions): Promise<string[]> => {
      const store = new SlowStore(memoryStore());
      await using locks = createLocks(store, { ...options, clock: store.clock });
      return problemsIn(await locks.diagnose());
    };
    expect(await problems({ ttlMs: 300_000, commandMs: 3_600_000 })).toEqual(['round-trip-ttl: fail']);
    expect(await problems({ ttlMs: 900_000, commandMs: 3_600_000 })).toEqual(['round-trip-ttl: warn']);
    expect(await problems({ ttlMs: 3_600_000, commandMs: 360_000 })).toEqual(['round-trip-command: warn']);
    expect(await problems({ ttlMs: 3_600_000, commandMs: 180_000 })).toEqual(['round-trip-command: fail']);
  });
});

describe.concurrent('diagnose with renewals in a thread', () => {
  it.each([
    ['beside the store', () => `sqlite:${folder.file('locks.db')}`, 'sqlite-file'],
    ['together with the store', () => 'sqlite::memory:', 'sqlite-library'],
  ])('has the findings of the store: a thread %s', async (_, url, check) => {
    const findings = await expectProblems(() => diagnose(url(), { renewal: 'thread' }), []);
    expect(findingOf(findings, check).level).toBe('ok');
  });
});

describe('the event loop', () => {
  it('is reported when it is blocked for longer than the TTL allows', async () => {
    await using locks = createLocks(memoryStore(), { ttlMs: 300 });
    const diagnosing = locks.diagnose();
    const block = setInterval(() => {
      for (const endMs = performance.now() + 120; performance.now() < endMs; );
    }, 20);
    const findings = await diagnosing.finally(() => clearInterval(block));
    expect(findingOf(findings, 'event-loop-delay')).toMatchObject({ level: 'fail' });
    expect(findingOf(findings, 'event-loop-delay').advice).toMatch(/renewal: 'thread'/);
  });
});

describe('judgeClock', () => {
  it('blames only a difference that the round trip cannot explain', () => {
    expect(judgeClock(5_000, 0, 4_500)).toMatchObject({ level: 'ok' });
    expect(judgeClock(5_000, 0, 3_000)).toMatchObject({ level: 'warn', found: /2000 ms ahead of/ });
    expect(judgeClock(0, 1_000_000, 1_000_100)).toMatchObject({ level: 'fail', found: /1000000 ms behind/ });
  });
});

describe('runCheck', () => {
  it('turns an error, and a check without an end, into an unknown that names the cause', async () => {
    const { signal } = new AbortController();
    const failed = await runCheck({ signal }, 'a', () => Promise.reject(new Error('NOPERM')));
    expect(failed).toMatchObject({ check: 'a', level: 'unknown', found: 'NOPERM' });
    const limited = { signal: AbortSignal.timeout(10) };
    const endless = await runCheck(limited, 'b', () => new Promise<never>(() => {}));
    expect(endless).toMatchObject({ check: 'b', level: 'unknown', found: /timeout/ });
    expect(await runCheck({ signal }, 'c', () => ok('x', 'y'))).toMatchObject({ level: 'ok' });
  });
});
