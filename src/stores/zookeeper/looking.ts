import { grantedCount } from '../../store/grant-rule.ts';
import type { StoredClaim } from '../../store/store.ts';
import { isNoAuth, isNoNode } from './calls.ts';
import type { Line } from './line.ts';
import type { LocksTree } from './locks-tree.ts';
import { decodeName, parseNode } from './node-name.ts';
import type { Session } from './session.ts';

/** How many nodes are asked for what is in them; a view of more claims shows the rest without notes. */
const DATA_MAX = 128;
/** How many locks are looked at together. */
const TOGETHER = 64;

/** Everything in the line of a lock. ZooKeeper knows no times but those of sessions, which it does not tell. */
export async function readClaims(session: Session, lock: string, line: Line): Promise<StoredClaim[]> {
  const granted = grantedCount(line.claims.map((claim) => claim.mode));
  const found = await Promise.all(
    line.claims.slice(0, DATA_MAX).map(({ node }) =>
      session.calls.getData(`${lock}/${node}`).catch((error: unknown) => {
        // Another program's, which keeps what is in it to itself: the others are shown all the same.
        if (isNoAuth(error)) return undefined;
        throw error;
      }),
    ),
  );
  return line.claims.flatMap((claim, place): StoredClaim[] => {
    const data = found[place];
    // Gone since the line was read.
    if (data === null) return [];
    const isGranted = place < granted;
    const stored = {
      id: claim.id,
      granted: isGranted,
      mode: claim.mode,
      fence: isGranted ? (data?.zxid ?? null) : null,
      heldForMs: null,
      expiresInMs: null,
      note: data?.text ?? null,
    };
    // kazoo writes there who wants the lock.
    return [claim.session === null ? { ...stored, note: null, owner: data?.text || null } : stored];
  });
}

/** Names with at least one claim. Locks leave their node behind, so each must be looked at. */
export async function* listNames(
  session: Session,
  tree: LocksTree,
  prefix: string,
): AsyncGenerator<string, void, undefined> {
  // Through the leader, so that what was released before is not shown.
  if (!(await session.calls.check(tree.root))) return;
  const { names: children } = await session.calls.getChildren(tree.root);
  const names = children.flatMap((child) => {
    const name = decodeName(child);
    const isLock = name !== null && tree.lock(name) === tree.child(child);
    return isLock && name.startsWith(prefix) ? [name] : [];
  });
  for (let from = 0; from < names.length; from += TOGETHER) {
    const some = names.slice(from, from + TOGETHER);
    const used = await Promise.all(some.map((name) => isUsed(session, tree.lock(name))));
    yield* some.filter((_, n) => used[n]);
  }
}

async function isUsed(session: Session, lock: string): Promise<boolean> {
  try {
    const { names } = await session.calls.getChildren(lock);
    return names.some((node) => parseNode(node) !== null);
  } catch (error) {
    if (isNoNode(error)) return false;
    throw error;
  }
}
