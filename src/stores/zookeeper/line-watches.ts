import type { Clock } from '../../clock.ts';
import type { LineWatches } from '../waiters.ts';
import type { Claim } from './claim.ts';
import type { Session } from './session.ts';

/** While the node ahead is watched, there is no need to look more often than this whether it is still there. */
const QUIET_MS = 5_000;

/** The node that a claim stands behind. */
export interface Spot {
  readonly claim: Claim;
  readonly path: string;
  /** A watch of a session that is over watches nothing. */
  readonly session: Session;
}

/** What the waiters of ZooKeeper watch: the end of the one node ahead, or the children of the lock. A waiter that was evicted finds out when it asks. */
export function lineWatches(clock: Clock): LineWatches<Claim, Spot> {
  return {
    isSame: (a, b) => a.path === b.path && a.session === b.session,
    watchOwn: () => null,
    watchSpot: ({ claim, path, session }, _since, fire) => {
      let isSilent = true;
      const watching = session.hub.node(path, () => {
        isSilent = false;
        claim.quietUntilMs = 0;
        fire();
      });
      const quiet = (): void => {
        if (isSilent) claim.quietUntilMs = clock.monotonicMs() + QUIET_MS;
      };
      watching.armed.then(quiet, () => {});
      return {
        armed: watching.armed,
        cancel: () => {
          isSilent = false;
          claim.quietUntilMs = 0;
          watching.cancel();
        },
      };
    },
    watchLine: ({ session, lock }, _since, fire) => session.hub.children(lock, fire),
    lineOf: ({ lock }) => lock,
    isAhead: (a, b) => ((a.place - b.place) | 0) < 0,
  };
}
