/** The median. */
export function p50(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** Runs every subject in turn, several times, so that a busy moment of the machine affects all alike. */
export async function alternate<S>(
  subjects: readonly S[],
  rounds: number,
  run: (subject: S) => Promise<number[]>,
): Promise<Map<S, number[][]>> {
  const results = new Map<S, number[][]>(subjects.map((subject) => [subject, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const subject of subjects) results.get(subject)?.push(await run(subject));
  }
  return results;
}

/** The median of the medians of all rounds, so that one slow round does not decide. */
export function middle(rounds: readonly number[][]): number {
  return p50(rounds.map(p50));
}

let failed = 0;

/** Prints one line for a target: what was measured, and the bound. */
export function report(
  what: string,
  measured: number,
  bound: { atMost: number } | { atLeast: number },
): void {
  const met = 'atMost' in bound ? measured <= bound.atMost : measured >= bound.atLeast;
  if (!met) failed += 1;
  const wanted = 'atMost' in bound ? `at most ${bound.atMost}` : `at least ${bound.atLeast}`;
  console.log(`${met ? 'met ' : 'MISS'}  ${what}: ${measured.toFixed(2)} (${wanted})`);
}

export function misses(): number {
  return failed;
}
