// `npm run campaign -- torture --minutes 60 --store redis`, `npm run campaign -- outage --minutes 5`,
// `npm run campaign -- killed-holders --deaths 100`, `npm run campaign -- schedule`,
// `npm run campaign -- planted`: long runs against real servers. They end by themselves.
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { BACKENDS, type BackendKind } from '../src/torture/backends/backend.ts';
import { modesOf, outage, TABLE_HEAD, textOf } from '../test/support/outage/outage.ts';
import { LIBRARIES } from '../test/support/outage/stores.ts';
import { compile } from '../test/support/process/compile.ts';
import { SCHEDULE_STORES, scheduleCampaign } from '../test/support/schedule/campaign.ts';
import { killHolders } from '../test/support/torture/killed-holders.ts';
import { PLANTED, RIGHT, runPlanted } from '../test/support/torture/planted.ts';
import { torture } from '../test/support/torture/torture.ts';

const USAGE = `npm run campaign -- torture [--minutes 60] [--store NAME | all] [--seed N]
    [--locks 3] [--tasks 3] [--holds N] [--verbose]
npm run campaign -- outage [--minutes 5] [--store NAME | all]
npm run campaign -- killed-holders [--deaths 100] [--store NAME | all] [--seed N]
npm run campaign -- planted [--minutes 1] [--runs 10] [--parallel 2] [--adapter NAME] [--seed N]
npm run campaign -- schedule [--minutes 1] [--store ${SCHEDULE_STORES.join(' | ')} | all]
    [--ahead 4] [--seed N]
stores: ${BACKENDS.join(', ')}`;
process.env.HOLDFAST_INSTALL_SERVERS ??= '1';
const OUTAGE_CALLERS = 60;
const SCHEDULE_OUTAGE_MS = 10_000;
const MINUTES: Readonly<Record<string, number>> = {
  torture: 60,
  outage: 5,
  schedule: 1,
  planted: 1,
  'killed-holders': 1,
};
const root = fileURLToPath(new URL('..', import.meta.url));

interface Campaign {
  readonly minutes: number;
  readonly kinds: readonly BackendKind[];
  readonly seed: number;
  readonly isVerbose: boolean;
  /** Shared by the workers of a torture, and of each of them. More of both make more holds. */
  readonly locks: number | undefined;
  readonly tasks: number | undefined;
  /** A torture with fewer goes on for up to as long again. */
  readonly holds: number | undefined;
  /** Of every planted adapter, and of the right one. */
  readonly runs: number;
  readonly parallel: number;
  /** Of each store. */
  readonly deaths: number;
  /** By how many minutes half of the processes of a schedule are ahead. */
  readonly ahead: number;
  /** One planted adapter; all of them unless set. */
  readonly adapter: string | undefined;
}

const stamp = (): string => new Date().toISOString().slice(11, 19);
const log = (text: string): void => console.log(`${stamp()} ${text}`);

/** The compiled worker, inside the project, where it finds the libraries. */
async function withScript<T>(script: string, use: (file: string) => Promise<T>): Promise<T> {
  mkdirSync(join(root, '.tmp'), { recursive: true });
  const folder = mkdtempSync(join(root, '.tmp/campaign-'));
  try {
    const file = join(folder, 'worker.mjs');
    compile(join(root, script), file);
    return await use(file);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

async function runTorture({
  minutes,
  kinds,
  seed,
  locks,
  tasks,
  holds,
  isVerbose,
}: Campaign): Promise<boolean> {
  const verdicts: string[] = [];
  await withScript('test/support/torture/worker.ts', async (script) => {
    for (const kind of kinds) {
      log(`${kind}: torture for ${minutes} min, seed ${seed}`);
      const result = await torture({
        kind,
        seed,
        script,
        locks,
        tasks,
        holds,
        forMs: minutes * 60_000,
        patienceMs: holds === undefined ? undefined : minutes * 60_000,
        report: log,
        ...(isVerbose ? { log: (text: string) => log(`${kind}: ${text}`) } : {}),
      });
      log(result.summary);
      for (const problem of [...result.problems, ...result.missing].slice(0, 50)) log(`${kind}: ${problem}`);
      log(`${kind}: ${result.verdict}`);
      verdicts.push(`${kind} ${result.verdict}`);
    }
  });
  log(`verdicts: ${verdicts.join(', ')}`);
  return verdicts.every((verdict) => verdict.endsWith(' holds'));
}

/** The libraries and the kinds of outage of one store at the same time, one store after the other. */
async function runOutages({ minutes, kinds }: Campaign): Promise<boolean> {
  let isGood = true;
  await withScript('test/support/outage/program.ts', async (script) => {
    console.log(TABLE_HEAD);
    for (const kind of kinds) {
      const each = LIBRARIES[kind].flatMap((library) => modesOf(kind).map((mode) => ({ library, mode })));
      const forMs = minutes * 60_000;
      const runs = each.map(({ library, mode }) =>
        outage({ kind, library, modes: [mode], forMs, callers: OUTAGE_CALLERS, script }),
      );
      for (const [n, run] of (await Promise.allSettled(runs)).entries()) {
        const rows = run.status === 'fulfilled' ? run.value : [];
        isGood &&= rows.length === 1 && rows.every(({ problems }) => problems.length === 0);
        for (const row of rows) console.log(textOf(row));
        if (run.status === 'rejected')
          console.log(`${kind} ${each[n]?.library} ${each[n]?.mode}: ${run.reason}`);
      }
    }
  });
  return isGood;
}

/**
 * Ten processes with clocks up to 5 s apart, a slot every second, kills, stops, and the store away
 * for a while.
 */
async function runSchedules({ minutes, kinds, seed, ahead }: Campaign): Promise<boolean> {
  let isGood = true;
  await withScript('test/support/schedule/worker.ts', async (script) => {
    for (const kind of SCHEDULE_STORES.filter((store) => kinds.includes(store))) {
      log(`${kind}: schedules for ${minutes} min, half of the clocks ${ahead} min ahead, seed ${seed}`);
      const times = { forMs: minutes * 60_000, aheadMs: ahead * 60_000, outageMs: SCHEDULE_OUTAGE_MS };
      const options = { kind, seed, script, ...times };
      const { verdict, problems, missing, summary } = await scheduleCampaign({ ...options, isStrict: true });
      log(`${kind}: ${summary}`);
      for (const problem of [...problems, ...missing].slice(0, 50)) log(`${kind}: ${problem}`);
      log(`${kind}: ${verdict}`);
      isGood &&= verdict === 'holds';
    }
  });
  return isGood;
}

/** Whether each killed holder is followed within its TTL and a second. */
async function runKilledHolders({ kinds, seed, deaths }: Campaign): Promise<boolean> {
  let all = 0;
  let inTime = 0;
  await withScript('test/support/process/holder.ts', async (script) => {
    for (const kind of kinds) {
      const { ttlMs, tookMs, late } = await killHolders({ kind, seed, deaths, script });
      const longest = Math.max(...tookMs).toFixed(0);
      const [done, met] = [tookMs.length, tookMs.length - late.length];
      all += done;
      inTime += met;
      log(
        `${kind}: ${met} of ${done} followed within ${ttlMs} ms and a second, the last after ${longest} ms`,
      );
    }
  });
  log(`${inTime} of ${all} killed holders were followed within their TTL and a second`);
  return inTime === all;
}

/** How often the torture catches each planted mistake, and whether it accuses the right adapter. */
async function runAllPlanted({ minutes, seed, runs, parallel, adapter }: Campaign): Promise<boolean> {
  mkdirSync(join(root, '.tmp'), { recursive: true });
  const folder = mkdtempSync(join(root, '.tmp/planted-'));
  execFileSync(process.execPath, [join(root, 'scripts/build.mjs'), join(folder, 'dist')]);
  copyFileSync(join(root, 'package.json'), join(folder, 'package.json'));
  const names = adapter === undefined ? [RIGHT, ...Object.keys(PLANTED)] : adapter.split(',');
  const left = Array.from({ length: runs }, (_, n) => names.map((name) => ({ name, seed: seed + n }))).flat();
  const caught = new Map(names.map((name) => [name, { runs: 0, caught: 0, expected: 0 }]));
  const work = async (): Promise<void> => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      const run = await runPlanted(root, join(folder, 'dist'), next.name, { seed: next.seed, minutes });
      log(
        `${run.name} seed ${run.seed}: ${run.violated?.join(', ') ?? 'failed'} | ${run.text.slice(0, 400)}`,
      );
      const row = caught.get(run.name);
      if (run.violated === null || row === undefined) continue;
      row.runs += 1;
      row.caught += run.violated.length > 0 ? 1 : 0;
      row.expected += run.violated.includes(PLANTED[run.name] ?? '') ? 1 : 0;
    }
  };
  await Promise.all(Array.from({ length: parallel }, work));
  rmSync(folder, { recursive: true, force: true });
  for (const [name, row] of caught)
    log(`${name}: caught in ${row.caught} of ${row.runs} runs, as expected in ${row.expected}`);
  return [...caught].every(([name, row]) =>
    name === RIGHT ? row.caught === 0 : row.caught >= row.runs * 0.9,
  );
}

function parse(): { what: string; campaign: Campaign } | null {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      minutes: { type: 'string' },
      store: { type: 'string', default: 'all' },
      seed: { type: 'string', default: String(Date.now() % 1_000_000) },
      locks: { type: 'string' },
      tasks: { type: 'string' },
      holds: { type: 'string' },
      verbose: { type: 'boolean', default: false },
      runs: { type: 'string', default: '10' },
      parallel: { type: 'string', default: '2' },
      deaths: { type: 'string', default: '100' },
      ahead: { type: 'string', default: '0' },
      adapter: { type: 'string' },
    },
  });
  const [what = ''] = positionals;
  const minutes = Number(values.minutes ?? MINUTES[what]);
  const kinds = BACKENDS.filter((kind) => values.store === 'all' || values.store === kind);
  if (!(minutes > 0) || kinds.length === 0) return null;
  const { verbose: isVerbose, adapter } = values;
  const counts = {
    seed: Number(values.seed),
    runs: Number(values.runs),
    parallel: Number(values.parallel),
    deaths: Number(values.deaths),
    ahead: Number(values.ahead),
    locks: values.locks === undefined ? undefined : Number(values.locks),
    tasks: values.tasks === undefined ? undefined : Number(values.tasks),
    holds: values.holds === undefined ? undefined : Number(values.holds),
  };
  return { what, campaign: { minutes, kinds, isVerbose, adapter, ...counts } };
}

// Servers and workers are ended when this process exits, which it does not by itself when a signal ends it.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const RUNS: Readonly<Record<string, (campaign: Campaign) => Promise<boolean>>> = {
  torture: runTorture,
  outage: runOutages,
  schedule: runSchedules,
  planted: runAllPlanted,
  'killed-holders': runKilledHolders,
};
let parsed: ReturnType<typeof parse> = null;
try {
  parsed = parse();
} catch (error) {
  // An option that does not exist.
  console.error((error as Error).message);
}
const run = RUNS[parsed?.what ?? ''];
if (parsed === null || run === undefined) {
  console.error(USAGE);
  process.exitCode = 64;
} else {
  process.exitCode = (await run(parsed.campaign)) ? 0 : 1;
  // After an hour of faults a socket of a proxy may be left, which would keep the process alive.
  process.stdout.write('', () => process.exit());
}
