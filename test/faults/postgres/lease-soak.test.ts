import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import type { Hold } from '../../../src/index.ts';
import { LeaseStage } from '../../postgres/support/lease-stage.ts';
import { useStage } from '../../support/hooks/use-stage.ts';

const stage = await useStage(LeaseStage.start());

const SOAK_MS = 5_000;
const NAMES = ['a', 'b', 'c'];

/** What a run under faults has shown. */
class Witness {
  readonly #inside = new Map<string, Set<Hold>>();
  readonly #fences = new Map<string, bigint>();
  readonly problems: string[] = [];
  holds = 0;

  async hold(hold: Hold, ms: number): Promise<void> {
    const { name, fence } = hold;
    this.holds += 1;
    const inside = this.#inside.get(name) ?? new Set();
    this.#inside.set(name, inside.add(hold));
    // Who was held up until its time was over knows that it holds no more.
    const trusted = [...inside].filter(({ remainingMs }) => remainingMs > 0).length;
    if (trusted > 1) this.problems.push(`${trusted} hold ${name}`);
    if (fence <= (this.#fences.get(name) ?? 0n)) this.problems.push(`fence ${fence} of ${name} did not rise`);
    this.#fences.set(name, fence);
    await sleep(ms);
    inside.delete(hold);
  }
}

it('rows 40, 43, 44 and 45 at random: never two holders, and fences rise', async () => {
  const lockses = Array.from({ length: 4 }, (_, n) =>
    stage.locks({ library: n % 2 === 0 ? 'pg.Pool' : 'postgres.js', ttlMs: 2_500 }),
  );
  const witness = new Witness();
  const end = performance.now() + SOAK_MS;
  const work = lockses.flatMap((locks, n) =>
    NAMES.flatMap((name) =>
      [0, 1].map(async () => {
        while (performance.now() < end) {
          const hold = await locks
            .mutex(name)
            .acquire()
            .catch(() => null);
          if (hold === null) continue;
          await witness.hold(hold, 1 + n);
          await hold.release().catch(() => {});
        }
      }),
    ),
  );
  const ours = 'FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()';
  for (let round = 0; performance.now() < end - 1_000; round += 1) {
    const [victim] = await stage.query(`SELECT pid ${ours} ORDER BY random() LIMIT 1`).catch(() => []);
    if (round % 4 === 0 && victim !== undefined) {
      const resume = stage.server.stopBackend(Number(victim.pid));
      await sleep(60);
      resume();
    } else if (round % 4 === 1) await stage.query(`SELECT pg_cancel_backend(pid) ${ours}`).catch(() => {});
    else if (victim !== undefined)
      await stage.query('SELECT pg_terminate_backend($1)', [victim.pid]).catch(() => {});
    if (round === 15) await stage.server.restartImmediately();
    await sleep(40);
  }
  await Promise.all(work);
  expect(witness.problems).toEqual([]);
  expect(witness.holds).toBeGreaterThan(30);
}, 60_000);
