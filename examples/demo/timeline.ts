import { painter } from '../../src/cli/text.ts';
import { type Check, turnsIn } from './checks.ts';
import { PLANS, type Told } from './story.ts';

const paint = painter(process.stdout);
const WIDTH = 84;

const WORDS: Readonly<Record<Told['what'], string>> = {
  waits: 'waits in the queue',
  holds: 'holds the lock',
  midway: 'has read, and not written yet',
  wrote: 'wrote the balance',
  refused: 'WRITES TOO LATE, and the gate refuses it',
  lost: 'is told that it has lost the lock',
  released: 'releases',
  killed: 'IS KILLED while it holds the lock (kill -9)',
  paused: 'IS PAUSED in the middle of its work (kill -STOP)',
  resumed: 'goes on, and knows of nothing (kill -CONT)',
};

export function printTold(told: Told, startMs: number): void {
  const time = ((told.atMs - startMs) / 1000).toFixed(3).padStart(7);
  const fence =
    told.what === 'holds' && told.fence !== undefined ? paint('dim', `  fence …${told.fence.slice(-9)}`) : '';
  const detail = told.what === 'wrote' ? ` ${told.detail}` : told.what === 'lost' ? ` (${told.detail})` : '';
  const words = `${WORDS[told.what]}${detail}`;
  const style =
    told.what === 'holds' || told.what === 'wrote'
      ? 'green'
      : told.what === 'waits' || told.what === 'released'
        ? 'dim'
        : 'red';
  console.log(
    `${paint('dim', `${time} s`)}  ${paint('bold', told.worker.padEnd(5))} ${paint(style, words)}${fence}`,
  );
}

/** One row for each worker: when it waited, when it held, and how it ended. */
export function printChart(story: readonly Told[]): void {
  const startMs = Math.min(...story.map(({ atMs }) => atMs));
  const endMs = Math.max(...story.map(({ atMs }) => atMs));
  const column = (ms: number): number =>
    Math.min(WIDTH - 1, Math.floor(((ms - startMs) / (endMs - startMs)) * WIDTH));
  const legend = [
    `${paint('green', '█')} holds`,
    `${paint('yellow', '·')} waits`,
    `${paint('red', '✗')} killed`,
    `${paint('red', '‖')} paused`,
    `${paint('red', '!')} late write refused`,
  ];
  console.log(`\n${paint('bold', 'Holders of the lock')}   ${legend.join('  ')}\n`);
  for (const { worker } of PLANS)
    console.log(`  ${paint('bold', worker.padEnd(6))}${row(story, worker, column).join('')}`);
  const end = `${((endMs - startMs) / 1000).toFixed(1)} s`;
  console.log(`  ${' '.repeat(6)}${paint('dim', `0 s${end.padStart(WIDTH - 3)}`)}`);
}

function row(story: readonly Told[], worker: string, column: (ms: number) => number): string[] {
  const cells: string[] = Array.from({ length: WIDTH }, () => ' ');
  const fill = (fromMs: number, toMs: number, cell: string): void => {
    for (let n = column(fromMs); n <= column(toMs); n += 1) cells[n] = cell;
  };
  const own = story.filter((told) => told.worker === worker);
  for (const [n, told] of own.entries()) {
    const next = own[n + 1];
    if (told.what === 'waits' && next !== undefined) fill(told.atMs, next.atMs, paint('yellow', '·'));
  }
  for (const turn of turnsIn(story))
    if (turn.worker === worker) fill(turn.fromMs, turn.toMs, paint('green', '█'));
  for (const told of own) {
    const resumed = own.find(({ what }) => what === 'resumed');
    if (told.what === 'paused' && resumed !== undefined) fill(told.atMs, resumed.atMs, paint('red', '‖'));
    if (told.what === 'killed') fill(told.atMs, told.atMs, paint('red', '✗'));
    if (told.what === 'refused') fill(told.atMs, told.atMs, paint('red', '!'));
  }
  return cells;
}

export function printChecks(checks: readonly Check[]): void {
  console.log('');
  for (const { title, problem, detail } of checks) {
    const mark = problem === null ? paint('green', '✔') : paint('red', '✘');
    console.log(`  ${mark} ${paint('bold', title.padEnd(15))} ${problem ?? detail}`);
  }
}
