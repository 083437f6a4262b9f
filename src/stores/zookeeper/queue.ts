import { type NodeName, parseNode } from './node-name.ts';

/** A lock's queue as it was when its children were read. Many claims can be judged by one read. */
export class Queue {
  /** In queue order. */
  readonly claims: readonly NodeName[];
  readonly #indexes = new Map<string, number>();
  readonly #ids = new Set<string>();
  readonly #duplicated = new Set<string>();

  constructor(nodes: readonly string[]) {
    const claims = nodes.flatMap((node) => parseNode(node) ?? []);
    // Positions have 32 bits and wrap around below zero. The sign of the difference decides.
    this.claims = claims.sort((a, b) => (a.position - b.position) | 0);
    for (const [index, { id, session }] of this.claims.entries()) {
      const key = `${session}\n${id}`;
      if (!this.#indexes.has(key)) this.#indexes.set(key, index);
      if (this.#ids.has(id)) this.#duplicated.add(id);
      this.#ids.add(id);
    }
  }

  /** The index of the claim; -1 when it is missing. Of a claim that was created twice, the first counts. */
  indexOf(id: string, session: string): number {
    return this.#indexes.get(`${session}\n${id}`) ?? -1;
  }

  /** Whether several nodes have this id. */
  hasDuplicates(id: string): boolean {
    return this.#duplicated.has(id);
  }
}
