import type { Clock } from '../../clock.ts';
import { PruneTimer } from '../shared/prune-timer.ts';
import type { Claims } from './claims.ts';
import type { Row } from './connection.ts';
import { greatest } from './queue.ts';
import { LIST_ROWS } from './statements.ts';

/** A lock that was in use a moment ago may be so again. */
const IDLE_US = 1_000_000;

/** Deletes the rows of locks that are not in use any more, as often as new ones are made. */
export function pruneTimer(clock: Clock, claims: Claims): PruneTimer {
  const { statements } = claims;
  const query = (text: string, ...values: string[]): Promise<readonly Row[]> =>
    claims.query({ text, values, isBackground: true });
  let after = '';
  // One page each time, which has more rows than were made since, so that the table does not grow.
  const prune = async (): Promise<boolean> => {
    const page = await query(statements.LIST, after, '', '0', '');
    after = page.length < LIST_ROWS ? '' : String(page.at(-1)?.[0]);
    const idle = page.filter(([, , , leftUs]) => Number(leftUs) < -IDLE_US);
    if (idle.length > 0) {
      // First: a floor that is too high does no harm.
      const fences = idle.map(([, , fence]) => BigInt(String(fence)));
      await query(statements.RAISE_FLOOR, `${greatest(fences)}`);
      const versions = idle.map(([name, version]) => [String(name), String(version)]);
      await query(statements.PRUNE, JSON.stringify(versions));
    }
    return after !== '' || page.length > idle.length;
  };
  return new PruneTimer(clock, prune);
}
