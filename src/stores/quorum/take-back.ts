import { DEFAULTS } from '../../options.ts';
import type { ClaimRef } from '../../store/store.ts';
import type { Claimed } from './claiming.ts';
import type { Panel } from './panel.ts';

/** How long a claim that nobody wants is tried to be taken back from a node that does not answer. */
const TAKE_BACK_MS = 5_000;

/**
 * Takes a claim without a majority back from every node that has it, or may have it. Waits only for those that are known to have it, and not for long: the others may
 * never answer, and are told all the same. It is one command for each node, since a second one could overtake the next time that this claim is asked for.
 *
 * Resolves to whether all that are known to have had it have given it up.
 */
export async function takeBack(panel: Panel, claim: ClaimRef, claimed: Claimed | null): Promise<boolean> {
  const isQuiet = claimed?.stoodInTheWay === false;
  const nodes = panel.nodes.filter((node) => claimed?.ballot.of(node)?.granted !== false);
  const isKnown = nodes.map((node) => claimed?.ballot.of(node) !== undefined);
  const told = panel.tell(
    claim.id,
    nodes,
    () => TAKE_BACK_MS,
    (node, limit) => (isQuiet ? node.withdraw(claim, limit) : node.release(claim, limit)),
  );
  for (const each of told) each.catch(() => {});
  const known = told.filter((_, index) => isKnown[index]);
  return known.length === 0 || (await panel.isDoneWithin(panel.limitMs(DEFAULTS.settings.ttlMs), known));
}
