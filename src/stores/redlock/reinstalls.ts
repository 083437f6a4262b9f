import type { ClaimRef, RenewChange, RenewOutcome } from '../../store/store.ts';
import type { NodeAnswers } from './node-answers.ts';
import type { NodeSet } from './node-set.ts';

/** A claim that is being put back, or may have to be. */
interface Reinstall {
  isCancelled: boolean;
}

/**
 * Puts a claim back at nodes that have lost it, for example by a restart, while a majority still
 * holds it. Otherwise the claim would lose one node with every restart, and its majority after a
 * few of them. A claim that was put back never counts for a majority: only the renewal does.
 */
export class Reinstalls {
  readonly #nodes: NodeSet;
  readonly #running = new Map<string, Reinstall>();

  constructor(nodes: NodeSet) {
    this.#nodes = nodes;
  }

  /**
   * A majority has renewed the claim. Which nodes do not have it is known when all have answered.
   * The claim may be released before that, or while it is put back.
   */
  watch(claim: ClaimRef, change: RenewChange, votes: NodeAnswers<RenewOutcome>): void {
    if (this.#running.has(claim.id)) return;
    const reinstall = { isCancelled: false };
    this.#running.set(claim.id, reinstall);
    const isOver = (): void => void this.#running.delete(claim.id);
    votes.complete.then(() => this.#putBack(claim, change, votes, reinstall)).then(isOver, isOver);
  }

  /** The claim is being released, and must not be put back from now on. */
  cancel(claim: ClaimRef): void {
    const running = this.#running.get(claim.id);
    if (running !== undefined) running.isCancelled = true;
  }

  async #putBack(
    { name, id }: ClaimRef,
    { ttlMs }: RenewChange,
    votes: NodeAnswers<RenewOutcome>,
    reinstall: Reinstall,
  ): Promise<void> {
    const { nodes } = this.#nodes;
    const missing = nodes.filter((node) => votes.of(node)?.held === false);
    const holder = nodes.find((node) => votes.of(node)?.held === true);
    if (missing.length === 0 || holder === undefined || reinstall.isCancelled) return;
    const limitMs = this.#nodes.limitMs(ttlMs);
    const [reading] = this.#nodes.tell(null, [holder], limitMs, (node, limit) => node.read(name, limit));
    const own = (await reading)?.find((claim) => claim.granted && claim.id === id);
    if (own === undefined || reinstall.isCancelled) return;
    const vote = { name, id, mode: own.mode, ttlMs, note: own.note ?? '', proposed: own.fence ?? 0n };
    // A release that follows is sent after this.
    await Promise.allSettled(this.#nodes.tell(id, missing, limitMs, (node, limit) => node.vote(vote, limit)));
  }
}
