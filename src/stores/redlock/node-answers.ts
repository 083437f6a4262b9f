import { type Applied, ClosedError, QuorumError, type Vote } from '../../errors.ts';
import { isDefinite } from '../../util/error-code.ts';
import { errorText } from '../../util/error-text.ts';
import type { RedlockNode } from './node.ts';

/** The answers of the nodes to one question so far. Each node answers or fails once. */
export class NodeAnswers<Answer> {
  readonly #nodes: readonly RedlockNode[];
  readonly #answers = new Map<RedlockNode, Answer>();
  readonly #errors = new Map<RedlockNode, unknown>();
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
    if (this.#answers.has(node) || this.#errors.has(node)) return false;
    if ('answer' in result) this.#answers.set(node, result.answer);
    else this.#errors.set(node, result.error);
    if (this.pending === 0) this.#onComplete();
    return true;
  }

  /** Nodes that have neither answered nor failed yet. */
  get pending(): number {
    return this.#nodes.length - this.#answers.size - this.#errors.size;
  }

  get answered(): number {
    return this.#answers.size;
  }

  count(is: (answer: Answer) => boolean): number {
    return this.answers().filter(is).length;
  }

  answers(): Answer[] {
    return [...this.#answers.values()];
  }

  /** `undefined` for a node that has failed or not answered yet. */
  of(node: RedlockNode): Answer | undefined {
    return this.#answers.get(node);
  }

  /** The nodes that have failed or not answered yet. */
  silent(): readonly RedlockNode[] {
    return this.#nodes.filter((node) => !this.#answers.has(node));
  }

  /** The node has failed, and says that it has done nothing: most often it was not connected. */
  hasDoneNothing(node: RedlockNode): boolean {
    return isDefinite(this.#errors.get(node));
  }

  /** The error if no majority has answered. `isYes`: which answers are shown as granted. */
  quorumError(verb: string, isYes: (answer: Answer) => boolean, applied: Applied): QuorumError {
    const votes = this.#nodes.map((node): Vote => {
      const answer = this.#answers.get(node);
      if (answer === undefined) return { node: node.label, answer: 'failed', error: this.#errors.get(node) };
      return { node: node.label, answer: isYes(answer) ? 'granted' : 'refused' };
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

function because(error: unknown): string {
  return error === undefined ? '' : ` (${errorText(causeOf(error))})`;
}

/** The error of the client, if the error of the node has one. */
function causeOf(error: unknown): unknown {
  return (error as { readonly cause?: unknown } | undefined)?.cause ?? error;
}
