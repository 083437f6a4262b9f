import type { Clock } from '../../clock.ts';
import { grantedCount } from '../../store/grant-rule.ts';
import type { StoredClaim } from '../../store/store.ts';
import { instant } from '../../store/validity.ts';
import { isNoAuth } from './calls.ts';
import type { Claim } from './claim.ts';
import type { LocksTree } from './locks-tree.ts';
import { decodeName, parseNode } from './node-name.ts';
import type { Session } from './session.ts';

/** How many nodes are read for their notes. Claims further back are shown without a note. */
const DATA_MAX = 128;
/** How many locks are read at once. */
const TOGETHER = 64;

/**
 * The claims of a lock. ZooKeeper tells neither when a claim was granted (a node has the time at which it
 * entered the queue) nor when its session ends. So both are known of claims of this store only.
 */
export async function readClaims(
  session: Session,
  lock: string,
  ownClaim: (id: string) => Claim | undefined,
  clock: Clock,
): Promise<StoredClaim[]> {
  const queue = await session.transactions.read(lock);
  const granted = grantedCount(queue.claims.map((claim) => claim.mode));
  const found = await Promise.all(
    queue.claims.slice(0, DATA_MAX).map(({ node }) =>
      session.calls.getData(`${lock}/${node}`).catch((error: unknown) => {
        // This user may not read another program's node. The other claims are still shown.
        if (isNoAuth(error)) return undefined;
        throw error;
      }),
    ),
  );
  const now = instant(clock);
  return queue.claims.flatMap((claim, index): StoredClaim[] => {
    const data = found[index];
    // The node was removed after the queue was read.
    if (data === null) return [];
    const isGranted = index < granted;
    const own = ownClaim(claim.id);
    const grantedAtMs = own?.grantedAtMs ?? null;
    const stored = {
      id: claim.id,
      granted: isGranted,
      mode: claim.mode,
      fence: isGranted ? (data?.zxid ?? null) : null,
      heldForMs: grantedAtMs === null ? null : now.monotonicMs - grantedAtMs,
      expiresInMs: own === undefined ? null : Math.max(own.session.leftMs(now), 0),
      note: data?.text ?? null,
    };
    // kazoo stores its identifier as the node's data.
    return [claim.session === null ? { ...stored, note: null, owner: data?.text || null } : stored];
  });
}

/** Names of locks with at least one claim. Empty lock nodes stay behind, so each lock node is read. */
export async function* listNames(
  session: Session,
  tree: LocksTree,
  prefix: string,
): AsyncGenerator<string, void, undefined> {
  // The check goes through the leader, so that claims that were released before are not shown.
  if (!(await session.calls.check([tree.root]))) return;
  const children = (await session.calls.getChildren(tree.root)) ?? [];
  const names = children.flatMap((child) => {
    const name = decodeName(child);
    const isLock = name !== null && tree.lock(name) === tree.child(child);
    return isLock && name.startsWith(prefix) ? [name] : [];
  });
  for (let from = 0; from < names.length; from += TOGETHER) {
    const some = names.slice(from, from + TOGETHER);
    const queues = await Promise.all(some.map((name) => session.calls.getChildren(tree.lock(name))));
    yield* some.filter((_, n) => queues[n]?.some((node) => parseNode(node) !== null));
  }
}
