import type { Clock } from '../../clock.ts';
import { PruneTimer } from '../shared/prune-timer.ts';
import type { Claims } from './claims.ts';
import { isUnused, readPages } from './inspect.ts';
import type { LockRow } from './lock-row.ts';
import { greatest } from './queue.ts';
import type { Statements } from './statements.ts';

/** How many pages are looked at each time: more than come, so that the table does not grow. */
const PAGES = 4;
/** A lock that was in use a moment ago may be so again. */
const IDLE_US = 1_000_000;

/** Deletes the rows of locks that are not in use any more, as often as new ones are made. */
export function pruneTimer(clock: Clock, claims: Claims, statements: Statements): PruneTimer {
  const run = (text: string, value: string): Promise<unknown> =>
    claims.add({ text, values: [value], isBackground: true });
  const prunePage = async (page: readonly LockRow[]): Promise<boolean> => {
    const idle = page.filter((row) => row.changedAtUs < row.nowUs - IDLE_US && isUnused(row));
    if (idle.length === 0) return page.length > 0;
    // First: a floor that is too high does no harm.
    await run(statements.RAISE_FLOOR, `${greatest(idle.map(({ fence }) => fence))}`);
    await run(statements.PRUNE, JSON.stringify(idle.map(({ name, version }) => [name, version])));
    return page.length > idle.length;
  };
  let after = '';
  const prune = async (): Promise<boolean> => {
    let isLeft = false;
    let pages = 0;
    for await (const page of readPages(claims, statements, { after, isBackground: true })) {
      isLeft = (await prunePage(page)) || isLeft;
      after = page.at(-1)?.name ?? '';
      pages += 1;
      if (pages === PAGES) return true;
    }
    after = '';
    return isLeft;
  };
  return new PruneTimer({ clock, prune });
}
