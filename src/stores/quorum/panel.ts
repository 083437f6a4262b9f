import type { Clock, Timer } from '../../clock.ts';
import { type Applied, ClosedError, InvalidArgumentError, QuorumError, type Vote } from '../../errors.ts';
import { onAbort } from '../../hold/abort.ts';
import { Commands } from '../../hold/command.ts';
import type { ClaimRef } from '../../store/store.ts';
import { errorText } from '../error-text.ts';
import { Ballot } from './ballot.ts';
import type { QuorumNode } from './node.ts';
import { NodeTurns } from './node-turns.ts';
import type { Standing } from './refusal.ts';
import type { Waiters } from './waiters.ts';

/** A node gets this share of a time to live to answer, within these bounds; it holds up only what cannot be decided without it. */
const NODE_SHARE = 1 / 20;
const NODE_MS = { min: 100, max: 500 };
/** The first answer may have to wait for a connection. */
const FIRST_MS = 1_000;
/** The first waiter of a process looks this often at least, whatever it was told. */
const LOOK_MS = { min: 3_000, max: 5_000 };
/** Another program's release sends no wake-up. */
const FOREIGN_MS = { min: 500, max: 1_000 };
/** Those behind it only look whether they are still behind it. */
const BEHIND_MS = { min: 30_000, max: 45_000 };
/** Right after a hold has ended, a little apart. */
const AFTER_END_MS = { min: 2, max: 25 };
/** After a split vote: over so many times what a round takes, at random, so that somebody comes alone. */
const SPLIT_ROUNDS = 12;
const SPLIT_MS_MIN = 30;

/** The nodes, how they are asked, and when to ask them again. */
export class Panel {
  readonly nodes: readonly QuorumNode[];
  readonly majority: number;
  readonly clock: Clock;
  readonly #commands: Commands;
  readonly #waiters: Waiters;
  readonly #turns: NodeTurns;
  /** Nodes that have answered, in whatever way, at least once. */
  readonly #seen = new Set<QuorumNode>();
  #isDistinct = false;

  constructor(nodes: readonly QuorumNode[], majority: number, clock: Clock, waiters: Waiters) {
    this.nodes = nodes;
    this.majority = majority;
    this.clock = clock;
    this.#commands = new Commands(clock);
    this.#waiters = waiters;
    this.#turns = new NodeTurns(nodes.length);
  }

  get size(): number {
    return this.nodes.length;
  }

  /**
   * Asks every node at once, each for a share of `ttlMs` at most. Resolves as soon as it is decided, or when all have answered or failed: a slow node holds
   * up only what depends on it.
   */
  ask<Answer>(
    id: string | null,
    ttlMs: number,
    send: (node: QuorumNode, signal: AbortSignal) => Promise<Answer>,
    isDecided: (ballot: Ballot<Answer>) => boolean,
  ): Promise<Ballot<Answer>> {
    const ballot = new Ballot<Answer>(this.nodes);
    const limitMs = this.limitMs(ttlMs);
    const inTurn = this.#turns.begin(id);
    return new Promise((resolve) => {
      const look = (): void => {
        if (ballot.pending === 0 || isDecided(ballot)) resolve(ballot);
      };
      for (const [index, node] of this.nodes.entries()) {
        const isFirst = !this.#seen.has(node);
        const sent = this.#commands.run(
          (signal) => inTurn(index, signal, () => send(node, signal)),
          isFirst ? Math.max(limitMs, FIRST_MS) : limitMs,
        );
        sent.then(
          (answer) => {
            if (isFirst) this.#seen.add(node);
            ballot.answer(index, answer);
            look();
          },
          (error: unknown) => {
            if (isFirst) this.#seen.add(node);
            ballot.fail(index, error);
            look();
          },
        );
      }
    });
  }

  /**
   * What takes as long as it takes, asked of every node. Once a majority has answered or failed, the others get as long again: one that is silent holds nobody up.
   */
  async gather<Answer>(
    send: (node: QuorumNode, signal: AbortSignal) => Promise<Answer>,
    signal: AbortSignal | undefined,
  ): Promise<PromiseSettledResult<Answer>[]> {
    const enough = new AbortController();
    const stopListening = onAbort(signal, () => enough.abort());
    if (signal?.aborted === true) enough.abort();
    const startedMs = this.clock.monotonicMs();
    let timer: Timer | null = null;
    let settled = 0;
    const onSettled = (): void => {
      settled += 1;
      if (settled !== this.majority) return;
      const tookMs = this.clock.monotonicMs() - startedMs;
      timer = this.clock.startTimer(Math.max(tookMs, NODE_MS.max), () => enough.abort());
    };
    const sent = this.nodes.map((node) => send(node, enough.signal));
    for (const each of sent) each.then(onSettled, onSettled);
    const results = await Promise.allSettled(sent);
    (timer as Timer | null)?.cancel();
    stopListening();
    return results;
  }

  /** Sends one command to each of these nodes. */
  tell<Answer>(
    id: string | null,
    nodes: readonly QuorumNode[],
    limitOf: (node: QuorumNode) => number,
    send: (node: QuorumNode, signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer>[] {
    const inTurn = this.#turns.begin(id);
    return nodes.map((node) =>
      this.#commands.run(
        (signal) => inTurn(this.nodes.indexOf(node), signal, () => send(node, signal)),
        limitOf(node),
      ),
    );
  }

  /** Whether all of this succeeds in so short a time. What is left of it goes on. */
  isDoneWithin(limitMs: number, work: readonly Promise<unknown>[]): Promise<boolean> {
    return this.#commands
      .run(() => Promise.all(work), limitMs)
      .then(
        () => true,
        () => false,
      );
  }

  limitMs(ttlMs: number): number {
    return Math.min(Math.max(ttlMs * NODE_SHARE, NODE_MS.min), NODE_MS.max);
  }

  /** Two votes of one server are one vote. */
  assertDistinct(): void {
    if (this.#isDistinct) return;
    const seen = new Map<string, QuorumNode>();
    for (const node of this.nodes) {
      if (node.serverId === null) continue;
      const other = seen.get(node.serverId);
      if (other !== undefined) {
        throw new InvalidArgumentError(
          'clients',
          `must be different servers: ${other.label} and ${node.label} are one`,
        );
      }
      seen.set(node.serverId, node);
    }
    this.#isDistinct = seen.size === this.size;
  }

  retryAfterMs(
    { name, id }: ClaimRef,
    { freeInMs, isSplit, isForeign, tookMs }: Omit<Standing, 'isHeld'> & { readonly tookMs: number },
  ): number {
    const { lines } = this.#waiters;
    let lookMs = this.#between(isForeign ? FOREIGN_MS : LOOK_MS);
    if (isSplit) lookMs = this.clock.random() * Math.max(tookMs * SPLIT_ROUNDS, SPLIT_MS_MIN);
    else if (freeInMs !== null) lookMs = Math.min(lookMs, freeInMs + this.#between(AFTER_END_MS));
    lines.setDue(name, lookMs);
    if (!isSplit && !lines.isFirst(name, id)) lookMs = this.#between(BEHIND_MS);
    return Math.max(Math.ceil(lookMs), 1);
  }

  quorumError(verb: string, votes: readonly Vote[], applied: Applied): QuorumError {
    const text = votes.map(({ node, answer, error }) => `${node} ${answer}${because(error)}`).join(', ');
    const failure = `No majority of ${this.size} nodes answered the ${verb}: ${text}`;
    const error = new QuorumError(failure, votes, applied);
    const causes = votes.flatMap((vote) => (vote.answer === 'failed' ? [causeOf(vote.error)] : []));
    // With all clients closed, nobody needs to try again.
    if (causes.every((cause) => cause instanceof ClosedError)) error.cause = causes[0];
    return error;
  }

  #between({ min, max }: { min: number; max: number }): number {
    return min + this.clock.random() * (max - min);
  }
}

/** In brackets: why a node has failed, as its client said. */
function because(error: unknown): string {
  if (error === undefined) return '';
  return ` (${errorText(causeOf(error))})`;
}

/** What a node's own error is of, if it says so. */
function causeOf(error: unknown): unknown {
  return (error as { readonly cause?: unknown } | undefined)?.cause ?? error;
}
