import type { ClaimRef, Mode, Store } from '../../store/store.ts';

/** What one node is asked to vote on. */
export interface VoteRequest extends ClaimRef {
  readonly mode: Mode;
  readonly ttlMs: number;
  readonly note: string;
  /** The fence to give if the node has given none as great. */
  readonly proposed: bigint;
}

/** What holds a lock at one node: a claim of ours, several, or another program. */
export type HolderKind = 'one' | 'several' | 'foreign';

/** A refusal is this node's alone. `endsMs`: what stands in the way ends by itself after so long; `null`: never. */
export type NodeVote =
  /** `isKept`: the node had this claim before. */
  | { readonly granted: true; readonly fence: bigint; readonly isKept: boolean }
  | {
      readonly granted: false;
      readonly endsMs: number | null;
      readonly kind: HolderKind;
      readonly holder: string;
    }
  | { readonly granted: false; readonly mismatch: Mode };

/**
 * One server of a quorum: a store of its own that grants without a line, and lets the fence of what it has granted be raised.
 *
 * A grant has a fence above every fence that the node has given, and the node's counter stands at it. `merge` raises the fence of a claim that the node still
 * holds to at least this one, and the counter with it, in one step; it resolves to the claim's fence as it is then, or to `null` when the claim is not there.
 */
export interface QuorumNode extends Omit<Store, 'claim' | 'traits' | 'watch'> {
  /** For people. */
  readonly label: string;
  /** Tells servers apart; `null` while it is not known, or may not be. Known once the node has voted. */
  readonly serverId: string | null;
  vote(request: VoteRequest, signal: AbortSignal): Promise<NodeVote>;
  merge(claim: ClaimRef, fence: bigint, signal: AbortSignal): Promise<bigint | null>;
  /** Gives up a claim that did not get its majority; wakes nobody. */
  withdraw(claim: ClaimRef, signal: AbortSignal): Promise<boolean>;
  /** `mayFree`: somebody may go on because of what has happened. */
  watch(target: { readonly name: string }, wake: (mayFree: boolean) => void): Promise<AsyncDisposable>;
}
