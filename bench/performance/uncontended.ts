import { pairs } from '../redis/latency.ts';
import { alternate, middle } from '../redis/measure.ts';
import { throughput } from '../redis/throughput.ts';
import { type Curves, distributionOf, type Latency } from './data.ts';
import type { Effort } from './effort.ts';
import type { Subject } from './subjects.ts';

/** µs of acquire and release by one task, as a distribution over all rounds. */
export async function latencyOf({ store, entrants }: Subject, effort: Effort): Promise<Latency> {
  for (const { contender } of entrants) await pairs(contender, effort.warmMs);
  const results = await alternate(entrants, effort.rounds, ({ contender }) =>
    pairs(contender, effort.roundMs),
  );
  const entries = entrants.map((entrant) => {
    const { kind, contender } = entrant;
    const samples = (results.get(entrant) ?? []).flat().map((ms) => ms * 1000);
    return { name: contender.name, kind, us: distributionOf(samples) };
  });
  return { store, entries };
}

/** Pairs of acquire and release a second with more and more tasks. */
export async function throughputOf({ store, entrants }: Subject, effort: Effort): Promise<Curves> {
  const figures = new Map<unknown, number[]>(entrants.map((entrant) => [entrant, []]));
  for (const tasks of effort.tasks) {
    for (const { contender } of entrants) await throughput(contender, tasks, effort.roundMs);
    const results = await alternate(entrants, effort.throughputRounds, ({ contender }) =>
      throughput(contender, tasks, effort.roundMs),
    );
    for (const entrant of entrants)
      figures.get(entrant)?.push(Math.round(middle(results.get(entrant) ?? [])));
  }
  const entries = entrants.map((entrant) => {
    return { name: entrant.contender.name, kind: entrant.kind, figures: figures.get(entrant) ?? [] };
  });
  return { store, points: effort.tasks, entries };
}
