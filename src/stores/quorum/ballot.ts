import type { Vote } from '../../errors.ts';
import type { QuorumNode } from './node.ts';

/** What the nodes have answered so far; what comes later is added. */
export class Ballot<Answer> {
  readonly #nodes: readonly QuorumNode[];
  readonly #answers: Array<Answer | undefined>;
  readonly #errors: unknown[];
  /** Nodes that have not answered yet. */
  pending: number;
  #onComplete: (() => void) | null = null;

  constructor(nodes: readonly QuorumNode[]) {
    this.#nodes = nodes;
    this.#answers = new Array<Answer | undefined>(nodes.length).fill(undefined);
    this.#errors = new Array<unknown>(nodes.length).fill(undefined);
    this.pending = nodes.length;
  }

  answer(index: number, answer: Answer): void {
    this.#answers[index] = answer;
    this.#settle();
  }

  fail(index: number, error: unknown): void {
    this.#errors[index] = error;
    this.#settle();
  }

  /** Calls back when every node has answered or failed: now, if they have. */
  whenComplete(callback: () => void): void {
    if (this.pending === 0) callback();
    else this.#onComplete = callback;
  }

  #settle(): void {
    this.pending -= 1;
    if (this.pending === 0) this.#onComplete?.();
  }

  get answered(): number {
    return this.count(() => true);
  }

  count(is: (answer: Answer) => boolean): number {
    let count = 0;
    for (const answer of this.#answers) if (answer !== undefined && is(answer)) count += 1;
    return count;
  }

  answers(): Answer[] {
    return this.#answers.filter((answer) => answer !== undefined);
  }

  /** What this node has answered; `undefined` when it has not, or failed. */
  of(node: QuorumNode): Answer | undefined {
    return this.#answers[this.#nodes.indexOf(node)];
  }

  get errors(): unknown[] {
    return this.#errors.filter((error) => error !== undefined);
  }

  /** One vote for each node, for people. Who has not answered has failed to, so far. */
  votes(isYes: (answer: Answer) => boolean): Vote[] {
    return this.#nodes.map(({ label: node }, index): Vote => {
      const answer = this.#answers[index];
      if (answer !== undefined) return { node, answer: isYes(answer) ? 'granted' : 'refused' };
      return { node, answer: 'failed', error: this.#errors[index] };
    });
  }
}
