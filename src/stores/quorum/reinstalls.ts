import type { ClaimRef, RenewChange, RenewOutcome } from '../../store/store.ts';
import type { Ballot } from './ballot.ts';
import type { QuorumNode } from './node.ts';
import type { Panel } from './panel.ts';

/** One claim that is being put back, or may have to be. */
interface Reinstall {
  isCancelled: boolean;
}

/**
 * Puts a claim back at nodes that have lost it, by a restart for example, while a majority still holds it: otherwise every restart would take one node off
 * the majority, and after a few of them it would be gone. Never what makes a majority: that is decided by the renewal itself.
 */
export class Reinstalls {
  readonly #panel: Panel;
  readonly #running = new Map<string, Reinstall>();

  constructor(panel: Panel) {
    this.#panel = panel;
  }

  /** A majority has renewed the claim. Who does not have it is known when all have answered; it may be given up before that, or while it is put back. */
  watch(claim: ClaimRef, change: RenewChange, ballot: Ballot<RenewOutcome>): void {
    if (this.#running.has(claim.id)) return;
    const reinstall = { isCancelled: false };
    this.#running.set(claim.id, reinstall);
    ballot.whenComplete(() => {
      this.#start(claim, change, ballot, reinstall)
        .catch(() => {})
        .finally(() => this.#running.delete(claim.id));
    });
  }

  async #start(
    claim: ClaimRef,
    change: RenewChange,
    ballot: Ballot<RenewOutcome>,
    reinstall: Reinstall,
  ): Promise<void> {
    const missing = this.#panel.nodes.filter((node) => ballot.of(node)?.held === false);
    const holder = this.#panel.nodes.find((node) => ballot.of(node)?.held === true);
    if (missing.length === 0 || holder === undefined || reinstall.isCancelled) return;
    await this.#putBack(claim, change, holder, missing, reinstall);
  }

  /** The claim is being given up: it is not put back from now on. */
  cancel(claim: ClaimRef): void {
    const running = this.#running.get(claim.id);
    if (running !== undefined) running.isCancelled = true;
  }

  async #putBack(
    claim: ClaimRef,
    { ttlMs }: RenewChange,
    holder: QuorumNode,
    missing: readonly QuorumNode[],
    reinstall: Reinstall,
  ): Promise<void> {
    const limitMs = this.#panel.limitMs(ttlMs);
    const [claims] = await Promise.all(
      this.#panel.tell(
        null,
        [holder],
        () => limitMs,
        (node, limit) => node.read(claim.name, limit),
      ),
    );
    const own = claims?.find((each) => each.granted && each.id === claim.id);
    if (own === undefined || reinstall.isCancelled) return;
    const { name, id } = claim;
    const vote = { name, id, mode: own.mode, ttlMs, note: own.note ?? '', proposed: own.fence ?? 0n };
    // A release that comes now is sent after this.
    await Promise.allSettled(
      this.#panel.tell(
        id,
        missing,
        () => limitMs,
        (node, limit) => node.vote(vote, limit),
      ),
    );
  }
}
