import { StoreError } from '../../errors.ts';
import type { ClaimOutcome, ClaimRequest, Mode } from '../../store/store.ts';
import { Turns } from '../../util/turns.ts';

/** How a turn ended. `outcome` is `null` when the turn failed. */
interface Ended {
  readonly outcome: ClaimOutcome | null;
  readonly mode: Mode;
  readonly begunAt: number;
}

export interface EntryTurn {
  /** The previous turn has shown that the lock is held, so the claim need not be sent. */
  readonly isAnswered: boolean;
  end(outcome: ClaimOutcome | null): void;
}

/**
 * Lets the new claims of one lock enter its queue one after the other, in the order of the calls.
 * Requests that are sent at the same time could reach the server in any order.
 */
export class EntryTurns {
  readonly #turns = new Turns();
  /** By lock: the last turn that has ended, while others follow it. */
  readonly #ended = new Map<string, Ended>();
  /** Counts calls and beginnings of turns, to compare which came first. */
  #now = 0;

  async begin(request: ClaimRequest, signal: AbortSignal | undefined): Promise<EntryTurn> {
    const { name, mode } = request;
    const calledAt = ++this.#now;
    const endTurn = await this.#turns.begin(name);
    const before = this.#ended.get(name);
    const isAnswered = before !== undefined && answers(before, request, calledAt);
    const begunAt = isAnswered ? before.begunAt : ++this.#now;
    const end = (outcome: ClaimOutcome | null): void => {
      this.#ended.set(name, { outcome, mode, begunAt });
      endTurn();
      if (!this.#turns.has(name)) this.#ended.delete(name);
    };
    if (signal?.aborted !== true) return { isAnswered, end };
    end(null);
    throw new StoreError('The claim was not sent in time', { applied: 'no' });
  }
}

/**
 * Whether the previous turn proves that the lock was held during the call: by the claim of that
 * turn, or by another claim at some time after that turn began. So any number of simultaneous
 * attempts costs two round trips.
 */
function answers(before: Ended, { wait, mode }: ClaimRequest, calledAt: number): boolean {
  if (wait || mode.kind !== 'exclusive' || before.mode.kind !== 'exclusive') return false;
  return before.outcome !== null && (before.outcome.granted || calledAt < before.begunAt);
}
