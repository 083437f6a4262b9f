import type { Clock } from '../../clock.ts';
import { ClosedError, StoreError, UnsupportedError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../store/store.ts';
import { type Claimed, claimAtMajority, refusal } from './claiming.ts';
import { Proposals } from './fence.ts';
import type { QuorumNode } from './node.ts';
import { Panel } from './panel.ts';
import { claimsAtMajority } from './reading.ts';
import { Reinstalls } from './reinstalls.ts';
import { takeBack } from './take-back.ts';
import { Waiters } from './waiters.ts';

export interface QuorumOptions {
  readonly clock: Clock;
  /** The share of a time to live by which clocks may run apart. */
  readonly drift: number;
}

/** How long a node that did not answer a release is told again. */
const AGAIN_MS = 5_000;
/** Fences are counted in doubles. */
const FENCE_MAX = 2n ** 53n - 2n;

/** A store made of stores: what a majority of independent nodes agrees on is so. It keeps no order and cannot count permits. */
export class QuorumStore implements Store {
  readonly traits: Traits = { lifetime: 'lease', ordered: false, counting: false, remembers: true };
  readonly #panel: Panel;
  readonly #clock: Clock;
  readonly #drift: number;
  readonly #proposals: Proposals;
  readonly #waiters: Waiters;
  readonly #reinstalls: Reinstalls;
  #closing: Promise<void> | null = null;

  constructor(nodes: readonly QuorumNode[], options: QuorumOptions) {
    const majority = Math.floor(nodes.length / 2) + 1;
    this.#clock = options.clock;
    this.#drift = options.drift;
    this.#waiters = new Waiters(nodes, majority, options.clock);
    this.#panel = new Panel(nodes, majority, options.clock, this.#waiters);
    this.#proposals = new Proposals(options.clock);
    this.#reinstalls = new Reinstalls(this.#panel);
  }

  async claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    this.#assertOpen();
    if (request.mode.kind === 'permits')
      throw new UnsupportedError('A majority of nodes cannot count permits');
    if (request.fenceAbove > FENCE_MAX) {
      throw new StoreError(`Redis cannot count above fence ${request.fenceAbove}`, { applied: 'no' });
    }
    const startedMs = this.#clock.monotonicMs();
    const proposed = this.#proposals.next(request.fenceAbove);
    const asked = claimAtMajority(this.#panel, request, proposed, signal);
    const claimed = await asked.catch(async (error: unknown) => {
      await takeBack(this.#panel, request, null);
      throw error;
    });
    const { ballot, fence } = claimed;
    if (fence !== null && fence <= FENCE_MAX + 1n)
      return { granted: true, fence, validForMs: this.#trusted(request.ttlMs) };
    if (fence !== null) {
      // The next one would be the same: to a double, one more than this is no more.
      const isGone = await takeBack(this.#panel, request, claimed);
      const problem = 'The nodes cannot count fences any higher';
      throw new StoreError(problem, { applied: isGone ? 'no' : 'unknown' });
    }
    const tookMs = this.#clock.monotonicMs() - startedMs;
    if (await this.#mayStand(request, claimed, signal)) {
      // It must not be called refused, and then be forgotten: nobody could go on for the rest of its time.
      const problem = 'The claim was given up, or not agreed on in time, and nodes may have it still';
      throw new StoreError(problem, { applied: 'unknown' });
    }
    return refusal(this.#panel, request, ballot, tookMs);
  }

  async renew(claim: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    this.#assertOpen();
    const { majority, size } = this.#panel;
    const isHeld = (outcome: RenewOutcome): boolean => outcome.held;
    const ballot = await this.#panel.ask(
      claim.id,
      change.ttlMs,
      (node, limit) => node.renew(claim, change, limit),
      (answers) =>
        answers.count(isHeld) >= majority || answers.answered - answers.count(isHeld) > size - majority,
    );
    const held = ballot.count(isHeld);
    if (held >= majority) {
      this.#reinstalls.watch(claim, change, ballot);
      return { held: true, validForMs: this.#trusted(change.ttlMs) };
    }
    if (ballot.answered - held <= size - majority) {
      throw this.#panel.quorumError('renewal', ballot.votes(isHeld), 'unknown');
    }
    // Lost for good: what is left of it at a minority would only be in others' way.
    if (signal?.aborted !== true) void this.release(claim).catch(() => {});
    return { held: false };
  }

  release(claim: ClaimRef): Promise<boolean> {
    return this.#remove('release', claim, (node, limit) => node.release(claim, limit));
  }

  evict(claim: ClaimRef): Promise<boolean> {
    return this.#remove('eviction', claim, (node, limit) => node.evict(claim, limit));
  }

  async watch({ name, id }: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    if (id !== undefined) return await this.#waiters.add(name, id, wake);
    const { nodes } = this.#panel;
    const watches = await Promise.all(
      nodes.map((node) => node.watch({ name }, () => wake()).catch(() => null)),
    );
    return {
      async [Symbol.asyncDispose]() {
        await Promise.all(watches.map((watch) => watch?.[Symbol.asyncDispose]()));
      },
    };
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    this.#assertOpen();
    const { majority, size } = this.#panel;
    // All of them, where they answer: a claim that is held by a bare majority must not be missed.
    const ballot = await this.#panel.ask(
      null,
      DEFAULTS.settings.ttlMs,
      (node, limit) => node.read(name, limit),
      () => false,
    );
    if (ballot.answered < majority) {
      throw this.#panel.quorumError(
        'look',
        ballot.votes(() => true),
        'no',
      );
    }
    return claimsAtMajority(ballot.answers(), majority, size - ballot.answered);
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    this.#assertOpen();
    const { nodes, majority, size } = this.#panel;
    const counts = new Map<string, number>();
    const lists = await this.#panel.gather((node, limit) => namesOf(node, prefix, limit), signal);
    const answered = lists.filter((list) => list.status === 'fulfilled');
    if (answered.length < majority) {
      const votes = lists.map((list, index) => ({
        node: nodes[index]?.label ?? '',
        ...(list.status === 'fulfilled'
          ? { answer: 'granted' as const }
          : { answer: 'failed' as const, error: list.reason as unknown }),
      }));
      throw this.#panel.quorumError('listing', votes, 'no');
    }
    for (const { value } of answered) for (const name of value) counts.set(name, (counts.get(name) ?? 0) + 1);
    const needed = Math.max(majority - (size - answered.length), 1);
    for (const [name, count] of counts) if (count >= needed) yield name;
  }

  close(): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    this.#waiters.clear();
    await Promise.all(this.#panel.nodes.map((node) => node.close()));
  }

  #assertOpen(): void {
    if (this.#closing !== null) throw new ClosedError('This store is closed');
  }

  /** After a claim without a majority, or without a fence: whether somebody has to clean up after us. */
  async #mayStand(claim: ClaimRef, claimed: Claimed, signal: AbortSignal | undefined): Promise<boolean> {
    const { majority, size } = this.#panel;
    const granted = claimed.ballot.count((vote) => vote.granted);
    // Whoever has given up on us asks again, or takes it back, by itself; what we did now could undo that.
    if (signal?.aborted === true) return claimed.ballot.answered - granted < size;
    return !(await takeBack(this.#panel, claim, claimed)) && granted >= majority;
  }

  /** So that what is left is right when the core has taken off the usual drift. */
  #trusted(ttlMs: number): number {
    return Math.min((ttlMs * (1 - this.#drift)) / (1 - DEFAULTS.driftShare), ttlMs);
  }

  /** It is gone when no majority can hold it any more; any node that had it then was among those that answered. */
  async #remove(
    verb: string,
    claim: ClaimRef,
    send: (node: QuorumNode, signal: AbortSignal) => Promise<boolean>,
  ): Promise<boolean> {
    this.#assertOpen();
    this.#reinstalls.cancel(claim);
    const { majority, nodes } = this.#panel;
    const ballot = await this.#panel.ask(
      claim.id,
      DEFAULTS.settings.ttlMs,
      send,
      (answers) => answers.answered >= majority,
    );
    // A node that was slow or out of reach is told once more: it may have the claim, and nobody will renew it there.
    ballot.whenComplete(() => {
      const silent = nodes.filter((node) => ballot.of(node) === undefined);
      if (silent.length === 0) return;
      for (const told of this.#panel.tell(claim.id, silent, () => AGAIN_MS, send)) told.catch(() => {});
    });
    const removed = ballot.count((isRemoved) => isRemoved);
    if (ballot.answered < majority) {
      throw this.#panel.quorumError(
        verb,
        ballot.votes((isRemoved) => isRemoved),
        'unknown',
      );
    }
    return removed > 0;
  }
}

async function namesOf(node: QuorumNode, prefix: string, signal?: AbortSignal): Promise<string[]> {
  const names: string[] = [];
  for await (const name of node.list(prefix, signal)) names.push(name);
  return names;
}
