import { Ledger } from '../torture/ledger.ts';

/**
 * One run of a schedule, as its process has written it down. Times are the host's monotonic clock,
 * in ms.
 */
export interface Run {
  readonly schedule: 'skip' | 'once';
  readonly slotMs: number;
  readonly fence: bigint;
  readonly worker: number;
  readonly startedMs: number;
  /** The last moment at which it was known to hold. */
  heldMs: number;
  /** Its function returned while it held. */
  returnedMs: number | null;
  lostMs: number | null;
  /** The hold was given up, so what it had to write down was written. */
  releasedMs: number | null;
}

/** What was done to a process: killed, or paused for a while. */
export interface Harm {
  readonly kind: 'kill' | 'stop';
  readonly worker: number;
  readonly fromMs: number;
  /** Infinity for a kill. */
  readonly toMs: number;
}

export interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

const describe = ({ schedule, slotMs, worker }: Run): string =>
  `${schedule}: slot ${new Date(slotMs).toISOString().slice(14, 19)} in process ${worker}`;

/** What of the promises of `missed: 'skip'` and `'once'` was broken. */
export function judge(runs: readonly Run[], harms: readonly Harm[], outages: readonly Span[]): string[] {
  const ordered = [...runs].sort((a, b) => a.startedMs - b.startedMs);
  return [...overlaps(ordered), ...repeats(ordered, harms, outages)];
}

/** How many runs a kill or a stop met. */
export function countDeaths(runs: readonly Run[], harms: readonly Harm[]): number {
  return runs.filter((run) => harms.some((harm) => isDeath(run, harm))).length;
}

const overlap = (a: Span, b: Span): boolean => a.fromMs < b.toMs && b.fromMs < a.toMs;

/** The process was killed or paused in the middle of the run. */
function isDeath(run: Run, harm: Harm): boolean {
  const endedMs = run.returnedMs ?? run.lostMs ?? Number.POSITIVE_INFINITY;
  return harm.worker === run.worker && harm.fromMs > run.startedMs && harm.fromMs < endedMs;
}

/** Two runs of one schedule at once, or a fence that does not rise. */
function overlaps(ordered: readonly Run[]): string[] {
  const ledger = new Ledger();
  for (const { schedule, worker, fence, startedMs, heldMs } of ordered)
    ledger.add({ lock: schedule, worker, fence, fromMs: startedMs, toMs: heldMs });
  ledger.judge();
  return ledger.problems;
}

function repeats(ordered: readonly Run[], harms: readonly Harm[], outages: readonly Span[]): string[] {
  const bySlot = new Map<string, Run[]>();
  for (const run of ordered) {
    const key = `${run.schedule} ${run.slotMs}`;
    bySlot.set(key, [...(bySlot.get(key) ?? []), run]);
  }
  return [...bySlot.values()].flatMap(([first, ...again]): string[] => {
    if (first === undefined || again.length === 0) return [];
    if (first.schedule === 'skip') return [`started twice: ${describe(first)}`];
    const problems: string[] = [];
    const completed = [first, ...again].filter((run) => run.returnedMs !== null && run.releasedMs !== null);
    if (completed.length > 1) problems.push(`completed twice: ${describe(first)}`);
    for (const [n, next] of again.entries()) {
      const before = again[n - 1] ?? first;
      const between = { fromMs: before.startedMs, toMs: next.startedMs };
      const isHarmed = [...harms.filter(({ worker }) => worker === before.worker), ...outages].some((span) =>
        overlap(span, between),
      );
      // A process that gets no time may notice a loss only after the next run has begun. Whether it
      // held until then is a matter of exclusion.
      const isLost = before.lostMs !== null || (before.returnedMs !== null && before.releasedMs === null);
      if (!isHarmed && !isLost) problems.push(`started again without a death: ${describe(before)}`);
    }
    return problems;
  });
}
