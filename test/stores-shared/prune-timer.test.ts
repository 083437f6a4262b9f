import { expect, it } from 'vitest';
import { type Prune, PruneTimer } from '../../src/stores/shared/prune-timer.ts';
import { virtualClock } from '../../src/testing/index.ts';

/** A timer, when it has pruned, in ms since the start, and how to create rows. */
function start(prune: Prune = async () => false) {
  const clock = virtualClock();
  const startedMs = clock.monotonicMs();
  const pruned: number[] = [];
  const timer = new PruneTimer(clock, (isAfterMany) => {
    pruned.push(clock.monotonicMs() - startedMs);
    return prune(isAfterMany);
  });
  const create = (rows: number): void => {
    for (let n = 0; n < rows; n += 1) timer.onNewRow();
  };
  return { clock, timer, pruned, create };
}

it('prunes a minute after the first new row, and not again without another', async () => {
  const { clock, pruned, create } = start();
  create(1);
  await clock.advance(30_000);
  create(998);
  await clock.advance(300_000);
  expect(pruned).toEqual([60_000]);
  create(1);
  await clock.advance(60_000);
  expect(pruned).toEqual([60_000, 390_000]);
});

it('prunes at once after a thousand new rows', async () => {
  const seen: boolean[] = [];
  const prune = async (isAfterMany: boolean): Promise<boolean> => {
    seen.push(isAfterMany);
    return false;
  };
  const { clock, pruned, create } = start(prune);
  create(999);
  await clock.advance(100);
  expect(pruned).toEqual([]);
  create(1);
  expect(pruned).toEqual([100]);
  await clock.advance(0);
  create(1);
  await clock.advance(60_000);
  expect(pruned).toEqual([100, 60_100]);
  expect(seen).toEqual([true, false]);
});

it('does not prune twice at a time, and goes on afterwards with the rows that came meanwhile', async () => {
  let end = (_isMoreLater: boolean): void => {};
  const ended = (): Promise<boolean> =>
    new Promise((resolve) => {
      end = resolve;
    });
  const { clock, pruned, create } = start(ended);
  create(1_000);
  create(5_000);
  await clock.advance(120_000);
  expect(pruned).toEqual([0]);
  end(false);
  await clock.advance(0);
  expect(pruned).toEqual([0, 120_000]);
  // No row came, but there is more to delete.
  end(true);
  await clock.advance(60_000);
  expect(pruned).toEqual([0, 120_000, 180_000]);
});

it('repeats a prune that has failed after the next new row', async () => {
  const { clock, pruned, create } = start(() => Promise.reject(new Error('no connection')));
  create(1);
  await clock.advance(300_000);
  expect(pruned).toEqual([60_000]);
  create(1);
  await clock.advance(60_000);
  expect(pruned).toEqual([60_000, 360_000]);
});

it('does not prune any more when it is closed', async () => {
  const { clock, timer, pruned, create } = start();
  create(1);
  timer.close();
  create(1_000);
  await clock.advance(300_000);
  expect(pruned).toEqual([]);
});
