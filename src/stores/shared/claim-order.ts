import { StoreError } from '../../errors.ts';
import { agree, fits, grantedCount, weightOf } from '../../store/grant-rule.ts';
import type { Mode } from '../../store/store.ts';

/**
 * The grant rule for servers that keep a queue but do not decide who holds the lock: the client
 * reads the queue and decides. All functions are pure. `queue` is in queue order, and `at` is the
 * index of the claim to decide on.
 */

/** A claim in a lock's queue. */
export interface QueuedClaim {
  readonly mode: Mode;
}

export type Verdict =
  | { readonly granted: true }
  /**
   * `behind`: the index of the claim that has to go first; `null`: any of several can make room.
   */
  | { readonly granted: false; readonly behind: number | null };

const GRANTED: Verdict = { granted: true };

/**
 * Decides whether the claim is granted and, if not, which claim it should watch. `queue` need only
 * contain the claims ahead that can block it: the nearest one for an exclusive claim, the nearest
 * that is not shared for a shared claim, all of them for permits.
 */
export function judge(queue: readonly QueuedClaim[], at: number): Verdict {
  const mode = queue[at]?.mode;
  if (mode === undefined) throw new RangeError(`No claim at queue position ${at}`);
  if (mode.kind === 'permits') return judgePermits(queue, at, mode);
  let behind = at - 1;
  if (mode.kind === 'shared') while (queue[behind]?.mode.kind === 'shared') behind -= 1;
  return behind < 0 ? GRANTED : { granted: false, behind };
}

function judgePermits(queue: readonly QueuedClaim[], at: number, own: Mode & { kind: 'permits' }): Verdict {
  let weight = 0;
  for (let ahead = 0; ahead < at; ahead += 1) {
    const mode = queue[ahead]?.mode ?? own;
    // An incompatible claim is about to be refused. Until it leaves, nothing fits beside it.
    weight += agree(mode, own) ? weightOf(mode) : own.of;
    if (!fits(weight, own)) return { granted: false, behind: null };
  }
  return fits(weight, own) ? GRANTED : { granted: false, behind: null };
}

/**
 * The mode that a new claim at `at` is incompatible with, which is that of the first claim in the
 * queue; `null` when the claim is compatible.
 */
export function checkCompatible(queue: readonly QueuedClaim[], at: number): Mode | null {
  const [first, own] = [queue[0], queue[at]];
  if (at === 0 || first === undefined || own === undefined) return null;
  return agree(first.mode, own.mode) ? null : first.mode;
}

/**
 * Whether the claim at `at` exceeds the bound on waiting claims. Claims behind it do not count: of
 * several that arrive at once, as many stay as there is room for.
 */
export function isOverBound(queue: readonly QueuedClaim[], at: number, queueMax: number): boolean {
  if (at < queueMax) return false;
  const upTo = queue.slice(0, at + 1).map(({ mode }) => mode);
  return upTo.length - grantedCount(upTo) > queueMax;
}

/**
 * The error for a fence that is not above `fenceAbove`; `null` when it is. A server that was
 * rebuilt from nothing counts from the beginning, and its fences would be below those that
 * resources have seen. `label` names the fence, as in `The etcd revision`.
 */
export function checkFence(fence: bigint, fenceAbove: bigint, label: string): StoreError | null {
  if (fence > fenceAbove) return null;
  return new StoreError(
    `${label} is ${fence}, not above the earlier fence ${fenceAbove}: has the server been rebuilt?`,
    { applied: 'no' },
  );
}

/**
 * Turns a definite failure of a later step into an unknown outcome while the claim may still be in
 * the queue, so that the core cleans it up.
 */
export function asUnknownIfStanding(error: unknown, mayStand: boolean): unknown {
  if (!mayStand || !(error instanceof StoreError) || error.applied !== 'no') return error;
  return new StoreError(error.message, { cause: error.cause ?? error, applied: 'unknown' });
}
