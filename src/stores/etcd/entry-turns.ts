import { StoreError } from '../../errors.ts';
import type { ClaimOutcome, ClaimRequest, Mode } from '../../store/store.ts';

/** How a turn ended. `outcome` is `null` when the turn failed. */
interface Ended {
  readonly outcome: ClaimOutcome | null;
  readonly mode: Mode;
  readonly begunAt: number;
}

/**
 * Lets the new claims of one lock enter its queue one after the other, in the order of the calls.
 * Requests that are sent at the same time could reach the server in any order.
 */
export class EntryTurns {
  readonly #last = new Map<string, Promise<Ended>>();
  /** Counts calls and beginnings of turns, to compare which came first. */
  #now = 0;

  /** `isAnswered`: the previous turn has shown that the lock is held, so the claim need not be sent. */
  async run(
    request: ClaimRequest,
    signal: AbortSignal | undefined,
    enter: (isAnswered: boolean) => Promise<ClaimOutcome>,
  ): Promise<ClaimOutcome> {
    const { name, mode } = request;
    const calledAt = ++this.#now;
    const before = this.#last.get(name);
    let begunAt = calledAt;
    const turn = async (): Promise<ClaimOutcome> => {
      const ended = await before;
      if (signal?.aborted === true) throw new StoreError('The claim was not sent in time', { applied: 'no' });
      const isAnswered = ended !== undefined && answers(ended, request, calledAt);
      begunAt = isAnswered ? ended.begunAt : ++this.#now;
      return await enter(isAnswered);
    };
    const outcome = turn();
    const end = outcome.then(
      (value): Ended => ({ outcome: value, mode, begunAt }),
      (): Ended => ({ outcome: null, mode, begunAt }),
    );
    this.#last.set(name, end);
    try {
      return await outcome;
    } finally {
      if (this.#last.get(name) === end) this.#last.delete(name);
    }
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
