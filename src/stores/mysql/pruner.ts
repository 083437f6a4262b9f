import type { Clock } from '../../clock.ts';
import { PruneTimer } from '../shared/prune-timer.ts';
import type { Claims } from './claims.ts';
import { greatest } from './queue.ts';
import { LIST, LIST_ROWS, PRUNE, RAISE_FLOOR } from './statements.ts';

/** A lock that was in use a moment ago may be so again. */
const IDLE_US = 1_000_000;

/** Deletes the rows of locks that are not in use any more, as often as new ones are made. */
export function pruneTimer(clock: Clock, claims: Claims): PruneTimer {
  const query = (text: string, ...values: string[]) => claims.query({ text, values, isBackground: true });
  let after = '';
  // One page each time, which has more rows than this process has made since the last one, so that
  // the table does not grow.
  const prune = async (): Promise<boolean> => {
    const page = await query(LIST, after, '', '0', '');
    after = page.length < LIST_ROWS ? '' : String(page.at(-1)?.[0]);
    const idle = page.filter(([, , , leftUs]) => Number(leftUs) < -IDLE_US);
    if (idle.length > 0) {
      // First: a floor that is too high does no harm.
      await query(RAISE_FLOOR, `${greatest(idle.map(([, , fence]) => BigInt(String(fence))))}`);
      await query(PRUNE, JSON.stringify(idle.map(([name, version]) => [String(name), String(version)])));
    }
    return after !== '' || page.length > idle.length;
  };
  return new PruneTimer(clock, prune);
}
