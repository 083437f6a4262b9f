import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/clock.ts';
import { createLocks, type Locks, type Store } from '../../src/index.ts';
import { type Schedule, schedule } from '../../src/schedule/index.ts';
import { openEtcd } from '../../src/stores/etcd/open.ts';
import { openPostgres } from '../../src/stores/postgres/open.ts';
import { openRedis } from '../../src/stores/redis/open.ts';
import { openSqlite } from '../../src/stores/sqlite/open.ts';
import { faultyStore, type StoreCall } from '../../src/testing/index.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { eventually } from '../support/waiting/eventually.ts';

/** One of each kind of store with a queue. */
const STORES = ['redis', 'postgres', 'sqlite', 'etcd'] as const;
const OPEN: Readonly<Record<(typeof STORES)[number], (url: string) => Promise<Store>>> = {
  redis: (url) => openRedis(url),
  postgres: (url) => openPostgres(url),
  sqlite: (url) => openSqlite(url, {}),
  etcd: (url) => openEtcd(url),
};
const PROCESSES = 3;
const SECOND_MS = 1_000;
/** From the slot that makes connections and subscriptions to the one that is counted. */
const APART_MS = 9 * SECOND_MS;

interface Scenario {
  readonly missed: 'skip' | 'once';
  /** How far the clocks of the other processes are behind that of the first. */
  readonly behindMs: number;
  readonly runMs: number;
}

/** What the processes that do not run the second slot have sent. */
interface Sent {
  /** The commands of each until the run has ended, in order. */
  readonly inRun: readonly string[];
  /** And after that. */
  readonly afterRun: readonly string[];
  /** How many commands any process sent between the two slots, when the first was dealt with. */
  readonly between: number;
}

interface Command {
  readonly atMs: number;
  readonly verb: string;
}

/** Schedules with two slots, each process with a connection of its own, every command of which is counted. */
async function measure(open: () => Promise<Store>, { missed, behindMs, runMs }: Scenario): Promise<Sent> {
  // On a busy machine this may take longer than the time to the first slot.
  const stores = await Promise.all(Array.from({ length: PROCESSES }, open));
  const firstMs = Date.now() + 3 * SECOND_MS;
  const next = (after: Date): Date | null =>
    [firstMs, firstMs + APART_MS].map((ms) => new Date(ms)).find((slot) => slot > after) ?? null;
  const runs: { process: number; fromMs: number; toMs: number }[] = [];
  const start = (store: Store, process: number): { locks: Locks; job: Schedule; sent: Command[] } => {
    const sent: Command[] = [];
    const count = ({ verb }: StoreCall): null => {
      sent.push({ atMs: performance.now(), verb });
      return null;
    };
    const wallMs = (): number => Date.now() - (process === 0 ? 0 : behindMs);
    const options = { clock: { ...systemClock, wallMs }, ttlMs: 60 * SECOND_MS };
    const locks = createLocks(faultyStore(store, count), options);
    const run = async (): Promise<void> => {
      const fromMs = performance.now();
      await sleep(runMs);
      runs.push({ process, fromMs, toMs: performance.now() });
    };
    const job = schedule(locks, `${missed} ${behindMs}`, { next }, run, { missed });
    return { locks, job, sent };
  };
  const processes = stores.map(start);
  const total = (): number => processes.reduce((sum, { sent }) => sum + sent.length, 0);
  /** Every process has dealt with so many slots, and sends nothing any more. */
  const settled = async (slots: number): Promise<void> => {
    await eventually(`run ${slots}`, () => runs.length === slots);
    await sleep(behindMs + 3 * SECOND_MS);
  };
  await settled(1);
  const before = processes.map(({ sent }) => sent.length);
  const totalBefore = total();
  await sleep(Math.max(0, firstMs + APART_MS - 200 - Date.now()));
  const between = total() - totalBefore;
  await settled(2);
  const run = runs[1] ?? { process: 0, fromMs: 0, toMs: 0 };
  const others = processes.map(({ sent }, n) => sent.slice(before[n])).filter((_, n) => n !== run.process);
  const verbs = (isIncluded: (atMs: number) => boolean): string[] =>
    others.map((sent) => sent.flatMap(({ atMs, verb }) => (isIncluded(atMs) ? [verb] : [])).join(' '));
  await Promise.all(processes.map(({ job }) => job.stop()));
  await Promise.all(processes.map(({ locks }) => locks.close()));
  return { inRun: verbs((atMs) => atMs < run.toMs), afterRun: verbs((atMs) => atMs >= run.toMs), between };
}

describe.concurrent('a process that does not run a slot', () => {
  it.each(STORES)('sends little for it, and nothing between slots: %s', async (kind) => {
    await using backend = await startBackend(kind);
    const open = (): Promise<Store> => OPEN[kind](backend.url);
    const [skipped, late, waiting] = await Promise.all([
      measure(open, { missed: 'skip', behindMs: 0, runMs: 3 * SECOND_MS }),
      measure(open, { missed: 'once', behindMs: 3 * SECOND_MS, runMs: 100 }),
      // The first process runs both slots: the others have waited, and so subscribed, before.
      measure(open, { missed: 'once', behindMs: SECOND_MS, runMs: 3 * SECOND_MS }),
    ]);
    // The refusal may have been spurious, so they look.
    expect(skipped).toEqual({ inRun: ['claim read', 'claim read'], afterRun: ['', ''], between: 0 });
    // The run was over when they looked.
    expect(late).toEqual({ inRun: ['', ''], afterRun: ['read', 'read'], between: 0 });
    // They wait in the queue and do not ask. In a file, where no server pushes, the first waiter looks
    // every few seconds. A subscription to PostgreSQL that a busy machine interrupts costs one claim.
    const asksAgain = { sqlite: 2, postgres: 1, redis: 0, etcd: 0 }[kind];
    const entered = expect.stringMatching(new RegExp(`^read claim(?: claim){0,${asksAgain}}$`));
    // A wake-up that is no grant makes them claim again: their turn, or a check of the waiter ahead.
    const left = expect.stringMatching(/^(?:claim ){0,2}read release$/);
    expect(waiting).toEqual({ inRun: [entered, entered], afterRun: [left, left], between: 0 });
  });
});
