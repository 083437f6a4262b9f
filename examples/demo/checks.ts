import { PLANS, ROUNDS, type Told, TTL_MS } from './story.ts';

export interface Check {
  readonly title: string;
  readonly problem: string | null;
  readonly detail: string;
}

/** One hold of a worker: from the grant to its last action under the lock. */
export interface Turn {
  readonly worker: string;
  readonly fence: bigint;
  readonly fromMs: number;
  readonly toMs: number;
  readonly end: 'released' | 'killed' | 'paused';
}

export function turnsIn(story: readonly Told[]): Turn[] {
  const turns: Turn[] = [];
  for (const { worker, atMs, fence } of story.filter((told) => told.what === 'holds')) {
    const end = story.find((told) => told.worker === worker && told.atMs > atMs && isEnd(told));
    if (end === undefined) continue;
    turns.push({
      worker,
      fence: BigInt(fence ?? 0),
      fromMs: atMs,
      toMs: end.atMs,
      end: end.what as Turn['end'],
    });
  }
  return turns.sort((a, b) => a.fromMs - b.fromMs);
}

const isEnd = ({ what }: Told): boolean => what === 'released' || what === 'killed' || what === 'paused';

/** Checks what happened, by the reports of the workers and by the ledger. */
export function check(story: readonly Told[], queue: readonly string[], balance: number): Check[] {
  const turns = turnsIn(story);
  return [
    exclusion(turns),
    noLostUpdate(story, balance),
    order(turns, queue),
    handoff(turns),
    fences(turns),
    gate(story),
  ];
}

function verdict(title: string, isSo: boolean, detail: string): Check {
  return { title, problem: isSo ? null : detail, detail };
}

function exclusion(turns: readonly Turn[]): Check {
  const overlaps = turns.filter((turn, n) => n > 0 && turn.fromMs < (turns[n - 1]?.toMs ?? 0));
  return verdict(
    'Exclusion',
    overlaps.length === 0,
    `${turns.length} turns, ${overlaps.length} of them before the last had ended`,
  );
}

function noLostUpdate(story: readonly Told[], balance: number): Check {
  const written = story.filter((told) => told.what === 'wrote').length;
  // The one that was killed has one turn and writes nothing; the one that was paused writes in its
  // other turns.
  const expected = PLANS.reduce(
    (sum, { fate }) => sum + (fate === 'killed' ? 0 : fate === 'paused' ? ROUNDS - 1 : ROUNDS),
    0,
  );
  const isSo = balance === written && written === expected;
  return verdict(
    'No lost update',
    isSo,
    `${written} additions were accepted, ${expected} expected, and the balance is ${balance}`,
  );
}

function order(turns: readonly Turn[], queue: readonly string[]): Check {
  const served = turns.slice(0, queue.length).map(({ worker }) => worker);
  const isSo = served.join() === queue.join();
  return verdict('Order', isSo, `waited as ${queue.join(', ')}; served as ${served.join(', ')}`);
}

function handoff(turns: readonly Turn[]): Check {
  const gaps = turns
    .slice(1)
    .map((turn, n) => ({ end: turns[n]?.end, ms: turn.fromMs - (turns[n]?.toMs ?? 0) }));
  const clean = gaps
    .filter(({ end }) => end === 'released')
    .map(({ ms }) => ms)
    .sort((a, b) => a - b);
  const median = clean[Math.floor(clean.length / 2)] ?? Number.POSITIVE_INFINITY;
  const silent = gaps.filter(({ end }) => end !== 'released').map(({ ms }) => ms);
  // A lost wake-up would take seconds; a busy machine does not.
  const isSo = median < 250 && silent.length === 2 && silent.every((ms) => ms < TTL_MS + 1_000);
  const after = silent.map((ms) => `${(ms / 1000).toFixed(2)} s`).join(' and ');
  const limit = `at most TTL + 1 s = ${(TTL_MS + 1_000) / 1000} s`;
  return verdict(
    'Handoff',
    isSo,
    `after a release ${median.toFixed(1)} ms (median); after a silent holder ${after}, ${limit}`,
  );
}

function fences(turns: readonly Turn[]): Check {
  const fallen = turns.filter((turn, n) => n > 0 && turn.fence <= (turns[n - 1]?.fence ?? 0n)).length;
  return verdict(
    'Rising fences',
    fallen === 0,
    `${turns.length} turns, ${fallen} without a greater fence than the one before`,
  );
}

function gate(story: readonly Told[]): Check {
  const paused = PLANS.find(({ fate }) => fate === 'paused')?.worker;
  const refused = story.filter((told) => told.what === 'refused');
  const [only] = refused;
  const isSo = refused.length === 1 && only?.worker === paused && only?.detail === 'STALE_FENCE';
  const writes = refused.map(({ worker, detail }) => `${worker}'s, ${detail}`).join('; ');
  return verdict('Fencing', isSo, `${refused.length} late write was refused: ${writes}`);
}
