import { DEFAULTS } from '../../options.ts';
import type { ClaimRef } from '../../store/store.ts';
import type { Claimed } from './claiming.ts';
import type { Panel } from './panel.ts';

/** How long a claim that nobody wants is tried to be taken back from a node that does not answer. */
const TAKE_BACK_MS = 5_000;

/**
 * Takes a claim without a majority back from every node that has it, or may have it. Waits only for those that are known to have it: the others may never answer,
 * and are told all the same.
 */
export async function takeBack(panel: Panel, claim: ClaimRef, claimed: Claimed | null): Promise<void> {
  const isQuiet = claimed?.stoodInTheWay === false;
  const nodes = panel.nodes.filter((node) => claimed?.ballot.of(node)?.granted !== false);
  const isKnown = nodes.map((node) => claimed?.ballot.of(node) !== undefined);
  const told = panel.tell(
    claim.id,
    nodes,
    (node) =>
      claimed?.ballot.of(node) === undefined ? TAKE_BACK_MS : panel.limitMs(DEFAULTS.settings.ttlMs),
    (node, limit) => (isQuiet ? node.withdraw(claim, limit) : node.release(claim, limit)),
  );
  const quiet = told.map((each) => each.catch(() => false));
  await Promise.all(quiet.filter((_, index) => isKnown[index]));
}
