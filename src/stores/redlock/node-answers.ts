import { type Applied, ClosedError, QuorumError, type Vote } from '../../errors.ts';
import { isDefinite } from '../../util/error-code.ts';
import { errorText } from '../../util/error-text.ts';
import type { RedlockNode } from './node.ts';

/** The answers of the nodes to one question so far. Each node answers or fails once. */
export class NodeAnswers<Answer> {
  readonly #nodes: readonly RedlockNode[];
  readonly #results = new Map<RedlockNode, Result<Answer>>();
  /** Resolves when every node has answered or failed. */
  readonly complete: Promise<void>;
  #onComplete = (): void => {};

  constructor(nodes: readonly RedlockNode[]) {
    this.#nodes = nodes;
    this.complete = new Promise((resolve) => {
      this.#onComplete = resolve;
    });
  }

  /** Returns false if the node already has a result: only the first one counts. */
  set(node: RedlockNode, result: Result<Answer>): boolean {
    if (this.#results.has(node)) return false;
    this.#results.set(node, result);
    if (this.pending === 0) this.#onComplete();
    return true;
  }

  /** Nodes that have neither answered nor failed yet. */
  get pending(): number {
    return this.#nodes.length - this.#results.size;
  }

  get answered(): number {
    return this.answers().length;
  }

  count(is: (answer: Answer) => boolean): number {
    return this.answers().filter(is).length;
  }

  answers(): Answer[] {
    return [...this.#results.values()].flatMap((result) => ('answer' in result ? [result.answer] : []));
  }

  /** `undefined` for a node that has failed or not answered yet. */
  of(node: RedlockNode): Answer | undefined {
    const result = this.#results.get(node);
    return result !== undefined && 'answer' in result ? result.answer : undefined;
  }

  /** The nodes that have failed or not answered yet. */
  silent(): readonly RedlockNode[] {
    return this.#nodes.filter((node) => this.of(node) === undefined);
  }

  /** The node has failed, and says that it has done nothing: most often it was not connected. */
  hasDoneNothing(node: RedlockNode): boolean {
    const result = this.#results.get(node);
    return result !== undefined && 'error' in result && isDefinite(result.error);
  }

  /** The error if no majority has answered. `isYes`: which answers are shown as granted. */
  quorumError(verb: string, isYes: (answer: Answer) => boolean, applied: Applied): QuorumError {
    const votes = this.#nodes.map((node): Vote => {
      const result = this.#results.get(node);
      if (result !== undefined && 'answer' in result)
        return { node: node.label, answer: isYes(result.answer) ? 'granted' : 'refused' };
      return { node: node.label, answer: 'failed', error: result?.error };
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
