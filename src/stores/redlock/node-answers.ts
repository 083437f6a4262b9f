import { type Applied, ClosedError, QuorumError, type Vote } from '../../errors.ts';
import { isDefinite } from '../../util/error-code.ts';
import { errorText } from '../../util/error-text.ts';
import type { RedlockNode } from './node.ts';

/** The answers of the nodes to one question so far. Each node answers or fails once. */
export class NodeAnswers<Answer> {
  readonly #nodes: readonly RedlockNode[];
  readonly #results: Array<Result<Answer> | undefined>;
  readonly #onComplete: Array<() => void> = [];
  /** Nodes that have neither answered nor failed yet. */
  pending: number;

  constructor(nodes: readonly RedlockNode[]) {
    this.#nodes = nodes;
    this.#results = new Array<Result<Answer> | undefined>(nodes.length).fill(undefined);
    this.pending = nodes.length;
  }

  /** Returns false if the node already has a result: only the first one counts. */
  set(index: number, result: Result<Answer>): boolean {
    if (this.#results[index] !== undefined) return false;
    this.#results[index] = result;
    this.pending -= 1;
    if (this.pending === 0) for (const callback of this.#onComplete.splice(0)) callback();
    return true;
  }

  /** Calls back when every node has answered or failed, at once if they all have. */
  whenComplete(callback: () => void): void {
    if (this.pending === 0) callback();
    else this.#onComplete.push(callback);
  }

  get answered(): number {
    return this.count(() => true);
  }

  count(is: (answer: Answer) => boolean): number {
    let count = 0;
    for (const result of this.#results) {
      if (result !== undefined && 'answer' in result && is(result.answer)) count += 1;
    }
    return count;
  }

  answers(): Answer[] {
    return this.#results.flatMap((result) =>
      result !== undefined && 'answer' in result ? [result.answer] : [],
    );
  }

  /** The answer of each node; `undefined` for a node that has failed or not answered yet. */
  perNode(): Array<Answer | undefined> {
    return this.#results.map((result) =>
      result !== undefined && 'answer' in result ? result.answer : undefined,
    );
  }

  of(node: RedlockNode): Answer | undefined {
    return this.perNode()[this.#nodes.indexOf(node)];
  }

  /** The node has failed, and says that it has done nothing: most often it was not connected. */
  hasDoneNothing(node: RedlockNode): boolean {
    const result = this.#results[this.#nodes.indexOf(node)];
    return result !== undefined && 'error' in result && isDefinite(result.error);
  }

  /** The error if no majority has answered. `isYes`: which answers are shown as granted. */
  quorumError(verb: string, isYes: (answer: Answer) => boolean, applied: Applied): QuorumError {
    const votes = this.#nodes.map(({ label: node }, index): Vote => {
      const result = this.#results[index];
      if (result !== undefined && 'answer' in result)
        return { node, answer: isYes(result.answer) ? 'granted' : 'refused' };
      return { node, answer: 'failed', error: result?.error };
    });
    const text = votes.map(({ node, answer, error }) => `${node} ${answer}${because(error)}`).join(', ');
    const failure = `No majority of ${votes.length} nodes answered the ${verb}: ${text}`;
    const error = new QuorumError(failure, votes, applied);
    const causes = votes.flatMap((vote) => (vote.answer === 'failed' ? [causeOf(vote.error)] : []));
    // Tells the core not to try again: all clients are closed.
    if (causes.every((cause) => cause instanceof ClosedError)) error.cause = causes[0];
    return error;
  }
}

export type Result<Answer> = { readonly answer: Answer } | { readonly error: unknown };

/** The error of a node, in brackets. */
function because(error: unknown): string {
  return error === undefined ? '' : ` (${errorText(causeOf(error))})`;
}

/** The error of the client, if the error of the node has one. */
function causeOf(error: unknown): unknown {
  return (error as { readonly cause?: unknown } | undefined)?.cause ?? error;
}
