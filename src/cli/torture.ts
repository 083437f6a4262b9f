import { readFileSync, writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { checkHistory } from '../torture/checks/check-history.ts';
import { overall, type Verdict } from '../torture/checks/verdict.ts';
import { toEdn } from '../torture/edn.ts';
import { formatHistory, type History, parseHistory } from '../torture/history.ts';
import { torture } from '../torture/torture.ts';
import { UsageError } from './exit-code.ts';
import { print, printJson } from './print.ts';
import { type Paint, painter, printable, table } from './text.ts';

export interface TortureArguments {
  readonly check?: string;
  readonly minutes: string;
  readonly server: string;
  readonly seed?: string;
  readonly workers?: string;
  readonly faults?: string;
  readonly history?: string;
  readonly edn?: string;
  readonly json?: boolean;
}

interface Outcome {
  readonly history: History;
  readonly verdicts: Verdict[];
  readonly operations?: number;
  readonly faults?: Record<string, number>;
  readonly seed?: number;
}

/** 0: holds; 1: a property is violated; 2: too little was done. */
const EXIT_CODES = { holds: 0, violated: 1, 'not enough': 2 } as const;

const STYLES = { holds: 'green', violated: 'red', 'not enough': 'yellow' } as const;

/** Tortures the adapter, or judges a stored history. */
export async function runTorture(adapter: string | undefined, options: TortureArguments): Promise<number> {
  // Servers and workers are ended by `exit` handlers, which do not run when a signal ends the
  // process.
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => process.exit(128 + constants.signals[signal]));
  const outcome = options.check === undefined ? await run(adapter, options) : judge(options.check);
  const { history, ...shown } = outcome;
  if (options.history !== undefined) writeFileSync(options.history, formatHistory(history));
  if (options.edn !== undefined) writeFileSync(options.edn, toEdn(history));
  const result = overall(outcome.verdicts);
  if (options.json === true) printJson({ result, ...shown });
  else for (const line of text(outcome, painter(process.stdout))) print(line);
  return EXIT_CODES[result];
}

async function run(adapter: string | undefined, options: TortureArguments): Promise<Outcome> {
  if (adapter === undefined)
    throw new UsageError('torture needs the path of an adapter module, or --check FILE');
  const seed = number('--seed', options.seed) ?? Date.now() % 1_000_000;
  const workers = number('--workers', options.workers);
  const minutes = Number(options.minutes);
  const report = await torture(adapter, {
    server: options.server,
    minutes,
    seed,
    ...(workers === undefined ? {} : { workers }),
    ...(options.faults === undefined ? {} : { faults: options.faults.split(',').filter(Boolean) }),
  });
  return { ...report, seed };
}

function judge(file: string): Outcome {
  let stored: string;
  try {
    stored = readFileSync(file, 'utf8');
  } catch {
    throw new UsageError(`--check: ${file} cannot be read`);
  }
  try {
    const history = parseHistory(stored);
    return { history, verdicts: checkHistory(history) };
  } catch (error) {
    throw new UsageError(`--check: ${(error as Error).message}`);
  }
}

function number(option: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined;
  if (!/^\d+$/.test(value)) throw new UsageError(`${option} must be a whole number; got "${value}"`);
  return Number(value);
}

function text({ verdicts, operations, faults, seed }: Outcome, paint: Paint): string[] {
  const widest = Math.max(...verdicts.map(({ result }) => result.length));
  const rows = table(verdicts.map(({ property, detail }) => [property, printable(detail)]));
  const lines = verdicts.map(
    ({ result }, n) => `${paint(STYLES[result], result.padEnd(widest))}  ${rows[n] ?? ''}`,
  );
  const result = overall(verdicts);
  const counts = Object.entries(faults ?? {}).map(([fault, count]) => `${fault} ${count}`);
  const done =
    operations === undefined ? [] : [`${operations} operations, seed ${seed}, faults: ${counts.join(', ')}`];
  return [...lines, '', ...done, paint(STYLES[result], result)];
}
