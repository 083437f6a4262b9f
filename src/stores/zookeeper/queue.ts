import { type NodeName, parseNode } from './node-name.ts';

/** A lock's queue as it was when its children were read. Many claims can be judged by one read. */
export class Queue {
  /** In queue order. */
  readonly claims: readonly NodeName[];
  readonly #byId = new Map<string, NodeName[]>();

  constructor(nodes: readonly string[]) {
    const claims = nodes.flatMap((node) => parseNode(node) ?? []);
    // Positions have 32 bits and wrap around below zero. The sign of the difference decides.
    this.claims = claims.sort((a, b) => (a.position - b.position) | 0);
    for (const claim of this.claims) {
      const same = this.#byId.get(claim.id);
      if (same === undefined) this.#byId.set(claim.id, [claim]);
      else same.push(claim);
    }
  }

  /** Usually one: a claim may have been created twice, or in several sessions. In queue order. */
  withId(id: string): readonly NodeName[] {
    return this.#byId.get(id) ?? [];
  }

  /** The index of the claim; -1 when it is missing. Of a claim that was created twice, the first counts. */
  indexOf(id: string, session: string): number {
    const own = this.withId(id).find((claim) => claim.session === session);
    return own === undefined ? -1 : this.claims.indexOf(own);
  }
}
