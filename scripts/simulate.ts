// `npm run simulate -- --seeds 1000000`: histories of the core over a simulated store, network and clocks.
// `npm run simulate -- --from 4711 --seeds 1` repeats one of them.
import { fork } from 'node:child_process';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { playSeeds, type Totals } from '../test/simulation/campaign.ts';

const USAGE = 'npm run simulate -- [--seeds 10000] [--from 1] [--workers N]';
const REPORT_MS = 60_000;

interface Slice {
  readonly from: number;
  readonly seeds: number;
}

/** What a worker tells its parent. */
interface Report {
  readonly totals: Totals;
}

/** Runs a slice in a process of its own. Resolves to what it did, or to null after a violation. */
function startWorker({ from, seeds }: Slice, onReport: (totals: Totals) => void): Promise<Totals | null> {
  const args = ['--from', String(from), '--seeds', String(seeds), '--workers', '0'];
  const worker = fork(fileURLToPath(import.meta.url), args, { execArgv: ['--import', 'tsx'] });
  let last: Totals = { histories: 0, held: 0, lost: 0 };
  worker.on('message', (report: Report) => {
    last = report.totals;
    onReport(last);
  });
  return new Promise((resolve) => {
    worker.once('exit', (code) => resolve(code === 0 ? last : null));
  });
}

/** A worker: sends its totals to its parent now and then, and at the end. */
async function work({ from, seeds }: Slice): Promise<boolean> {
  let reportedMs = performance.now();
  const send = (totals: Totals): void => void process.send?.({ totals } satisfies Report);
  try {
    const totals = await playSeeds(from, seeds, (sofar) => {
      if (performance.now() - reportedMs < 1_000) return;
      reportedMs = performance.now();
      send(sofar);
    });
    send(totals);
    return true;
  } catch (error) {
    console.error(error);
    return false;
  }
}

const textOf = (all: readonly Totals[]): string => {
  const sum = (key: keyof Totals): string =>
    all.reduce((total, each) => total + each[key], 0).toLocaleString('en-US');
  return `${sum('histories')} histories, ${sum('held')} holds, ${sum('lost')} of them lost`;
};

/** Splits the seeds among the workers and waits for all. */
async function runAll({ from, seeds }: Slice, workers: number): Promise<boolean> {
  const share = Math.ceil(seeds / workers);
  const slices = Array.from({ length: workers }, (_, n) => ({
    from: from + n * share,
    seeds: Math.max(Math.min(share, seeds - n * share), 0),
  }));
  const latest: Totals[] = [];
  const timer = setInterval(() => console.log(textOf(latest)), REPORT_MS);
  const started = performance.now();
  const results = await Promise.all(
    slices.map((slice, n) =>
      startWorker(slice, (totals) => {
        latest[n] = totals;
      }),
    ),
  );
  clearInterval(timer);
  const isGood = results.every((totals) => totals !== null);
  const seconds = Math.round((performance.now() - started) / 1_000);
  console.log(`seeds ${from} to ${from + seeds - 1}: ${textOf(latest)}, ${seconds} s`);
  console.log(isGood ? '0 violations' : 'VIOLATED: see above');
  return isGood;
}

const { values } = parseArgs({
  options: {
    seeds: { type: 'string', default: '10000' },
    from: { type: 'string', default: '1' },
    workers: { type: 'string', default: String(availableParallelism()) },
  },
});
const slice = { from: Number(values.from), seeds: Number(values.seeds) };
const workers = Number(values.workers);
if (!(slice.seeds > 0 && slice.from >= 0 && workers >= 0)) {
  console.error(USAGE);
  process.exitCode = 64;
} else {
  const isGood = await (workers === 0 ? work(slice) : runAll(slice, Math.min(workers, slice.seeds)));
  process.exitCode = isGood ? 0 : 1;
}
