import { StoreError } from '../../errors.ts';

/** The last command about one claim at each node, where it has not been answered yet. */
type Turn = (Promise<unknown> | undefined)[];

/**
 * Commands about one claim reach each node in the order in which they were given. A majority decides before the last node has answered, so a release may follow
 * a vote that is still waiting for its connection: if it overtook the vote, the claim would stay behind at that node; and if a vote overtook the command that
 * takes an earlier one back, a grant that has been counted would be taken away.
 */
export class NodeTurns {
  readonly #size: number;
  readonly #last = new Map<string, Turn>();

  constructor(size: number) {
    this.#size = size;
  }

  /** One command for each node, or for some of them: the others keep their turn. `null`: it is about no claim, and waits for nothing. */
  begin(id: string | null): Sender {
    if (id === null) return (_index, _signal, send) => send();
    const before = this.#last.get(id);
    const turn: Turn = before === undefined ? new Array<undefined>(this.#size).fill(undefined) : [...before];
    this.#last.set(id, turn);
    return <Answer>(index: number, signal: AbortSignal, send: () => Promise<Answer>): Promise<Answer> => {
      const earlier = before?.[index];
      const sent = earlier === undefined ? send() : after(earlier, signal, send);
      turn[index] = sent;
      const done = (): void => {
        if (turn[index] === sent) turn[index] = undefined;
        if (this.#last.get(id) === turn && turn.every((each) => each === undefined)) this.#last.delete(id);
      };
      sent.then(done, done);
      return sent;
    };
  }
}

export type Sender = <Answer>(
  index: number,
  signal: AbortSignal,
  send: () => Promise<Answer>,
) => Promise<Answer>;

async function after<Answer>(
  earlier: Promise<unknown>,
  signal: AbortSignal,
  send: () => Promise<Answer>,
): Promise<Answer> {
  await earlier.catch(() => {});
  // Nobody counts it any more.
  if (signal.aborted) throw new StoreError('Not sent within the time limit', { applied: 'no' });
  return await send();
}
