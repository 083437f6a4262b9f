import { StoreError } from '../../errors.ts';

/**
 * Sends the commands of one claim to each node in their order. A majority decides before the last
 * node has answered, so a release may follow a vote that still waits for its connection. If the
 * release overtook the vote, the claim would be left at that node. If a vote overtook the command
 * that takes an earlier vote back, a grant that was counted would be removed.
 */
export class CommandOrder {
  readonly #size: number;
  /** By claim: its last command at each node, if that has no reply yet. */
  readonly #last = new Map<string, (Promise<unknown> | undefined)[]>();

  constructor(size: number) {
    this.#size = size;
  }

  /** Sends a command to the node of this index when the earlier command of the claim is over. */
  send<Answer>(id: string, index: number, signal: AbortSignal, send: () => Promise<Answer>): Promise<Answer> {
    const last = this.#last.get(id) ?? new Array<undefined>(this.#size).fill(undefined);
    const earlier = last[index];
    const sent = earlier === undefined ? send() : after(earlier, signal, send);
    last[index] = sent;
    this.#last.set(id, last);
    const done = (): void => {
      if (last[index] === sent) last[index] = undefined;
      if (this.#last.get(id) === last && last.every((each) => each === undefined)) this.#last.delete(id);
    };
    sent.then(done, done);
    return sent;
  }
}

async function after<Answer>(
  earlier: Promise<unknown>,
  signal: AbortSignal,
  send: () => Promise<Answer>,
): Promise<Answer> {
  await earlier.catch(() => {});
  // The time limit is over, so a reply would not be counted.
  if (signal.aborted) throw new StoreError('Not sent within the time limit', { applied: 'no' });
  return await send();
}
