/** More runs than this are not spent on making one failure shorter. */
const RUNS_MAX = 300;

/**
 * The shortest list of causes that was found to fail: leaves out halves, then quarters, then single
 * causes, as long as the rest still fails. `attempt` runs without the causes in `leftOut`; it resolves to
 * the causes that occurred when the run failed, and to `null` when it did not fail.
 */
export async function shrink(
  causes: readonly string[],
  attempt: (leftOut: ReadonlySet<string>) => Promise<readonly string[] | null>,
): Promise<ReadonlySet<string>> {
  let leftOut: ReadonlySet<string> = new Set();
  let left = causes;
  let runs = 0;
  for (let size = Math.max(left.length, 1); size >= 1 && runs < RUNS_MAX; ) {
    let isShorter = false;
    for (let from = 0; from < left.length && runs < RUNS_MAX; ) {
      const without = new Set([...leftOut, ...left.slice(from, from + size)]);
      const occurred = await attempt(without);
      runs += 1;
      if (occurred === null) {
        from += size;
      } else {
        leftOut = without;
        left = occurred;
        isShorter = true;
      }
    }
    if (size === 1 && !isShorter) break;
    size = isShorter && size === 1 ? 1 : Math.floor(size / 2);
  }
  return leftOut;
}
