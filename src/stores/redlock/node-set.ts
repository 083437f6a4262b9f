import type { Clock } from '../../clock.ts';
import { InvalidArgumentError, StoreError } from '../../errors.ts';
import { DEFAULTS } from '../../options.ts';
import { onAbort } from '../../util/abort.ts';
import { settlesWithin } from '../../util/backoff.ts';
import { Commands } from '../../util/command.ts';
import { Turns } from '../../util/turns.ts';
import type { RedlockNode } from './node.ts';
import { NodeAnswers, type Result } from './node-answers.ts';

/** A node has this share of the TTL to answer, within these bounds. */
const NODE_SHARE = 1 / 20;
const NODE_MS = { min: 100, max: 500 };
/** The first command may have to wait for a connection. */
const FIRST_MS = 1_000;
/**
 * While a node does not answer in time, at most this many commands wait for it, and others fail at
 * once. So a node that cannot be reached costs neither memory nor time. Its first answer, or a
 * failure within the time limit, ends that.
 */
const SILENT_WAITING_MAX = 8;
/** For commands in the background. A node that gets no release keeps the claim for its TTL. */
const BACKGROUND_MAX = 256;

interface NodeState {
  /**
   * The commands of one claim are sent one at a time. A majority decides before the last node has
   * answered, so a release may follow a vote that still waits for its connection. If the release
   * overtook the vote, the claim would be left at that node. If a vote overtook the command that takes
   * an earlier vote back, a grant that was counted would be removed.
   */
  readonly turns: Turns;
  /** Why the last command had no answer in time; `null` if it had one, failed in time or was given up. */
  silence: unknown;
  waiting: number;
  background: number;
}

export type Send<Answer> = (node: RedlockNode, signal: AbortSignal) => Promise<Answer>;

interface Question<Answer> {
  /** The claim of the question, if any. The commands of a claim are sent in order. */
  readonly id: string | null;
  /** The nodes have a share of it to answer. Default: of the default TTL. */
  readonly ttlMs?: number;
  readonly send: Send<Answer>;
  /** Whether the nodes that have not answered yet can no longer change the outcome. */
  isDecided(votes: NodeAnswers<Answer>): boolean;
  /** Aborts when the caller gives up. Commands that were not sent by then are never sent. */
  readonly signal?: AbortSignal | undefined;
}

/** The nodes of a Redlock, and how they are asked. */
export class NodeSet {
  readonly nodes: readonly RedlockNode[];
  readonly majority: number;
  readonly clock: Clock;
  readonly #commands: Commands;
  readonly #states: ReadonlyMap<RedlockNode, NodeState>;
  #hasAsked = false;

  constructor(nodes: readonly RedlockNode[], clock: Clock) {
    this.nodes = nodes;
    this.majority = Math.floor(nodes.length / 2) + 1;
    this.clock = clock;
    this.#commands = new Commands(clock);
    this.#states = new Map(
      nodes.map((node) => [node, { turns: new Turns(), silence: null, waiting: 0, background: 0 }]),
    );
  }

  get size(): number {
    return this.nodes.length;
  }

  /**
   * Asks every node at once. Resolves when the outcome is decided, or when all nodes have answered
   * or failed: a slow node delays only what depends on it. Later answers still count for `complete`.
   */
  ask<Answer>({ id, ttlMs, send, isDecided, signal }: Question<Answer>): Promise<NodeAnswers<Answer>> {
    const votes = new NodeAnswers<Answer>(this.nodes);
    const limitMs = this.#hasAsked ? this.limitMs(ttlMs) : Math.max(this.limitMs(ttlMs), FIRST_MS);
    const controller = signal === undefined ? null : new AbortController();
    const stopListening = onAbort(signal, () => controller?.abort());
    if (signal?.aborted === true) controller?.abort();
    const command = this.#commands.begin<void>(limitMs, undefined, controller);
    void votes.complete.then(() => {
      this.#hasAsked = true;
      stopListening();
    });
    return new Promise((resolve) => {
      const settle = (node: RedlockNode, state: NodeState, result: Result<Answer>, isLate: boolean): void => {
        if (!votes.set(node, result)) return;
        state.waiting -= 1;
        state.silence = isLate && 'error' in result ? result.error : null;
        if (votes.pending === 0 || isDecided(votes)) resolve(votes);
      };
      for (const [node, state] of this.#states) {
        state.waiting += 1;
        if (state.silence !== null && state.waiting > SILENT_WAITING_MAX) {
          settle(node, state, { error: notSent(state) }, true);
          continue;
        }
        this.#send(node, state, id, command.signal, send).then(
          (answer) => settle(node, state, { answer }, false),
          (error: unknown) =>
            settle(node, state, { error }, command.signal.aborted && signal?.aborted !== true),
        );
      }
      command.settle(votes.complete).catch((error: unknown) => {
        for (const [node, state] of this.#states) settle(node, state, { error }, true);
      });
    });
  }

  /**
   * Asks every node, without a time limit for a majority. When a majority has answered or failed,
   * the other nodes have as long again: a silent node delays no caller for long.
   */
  async gather<Answer>(send: Send<Answer>, signal: AbortSignal | undefined): Promise<NodeAnswers<Answer>> {
    const enough = new AbortController();
    const stopListening = onAbort(signal, () => enough.abort());
    if (signal?.aborted === true) enough.abort();
    const startedMs = this.clock.monotonicMs();
    const votes = new NodeAnswers<Answer>(this.nodes);
    await new Promise<void>((resolve) => {
      const settle = (node: RedlockNode, result: Result<Answer>): void => {
        votes.set(node, result);
        if (this.size - votes.pending >= this.majority) resolve();
      };
      for (const node of this.nodes) {
        send(node, enough.signal).then(
          (answer) => settle(node, { answer }),
          (error: unknown) => settle(node, { error }),
        );
      }
    });
    const tookMs = this.clock.monotonicMs() - startedMs;
    await settlesWithin(this.clock, votes.complete, Math.max(tookMs, NODE_MS.max));
    enough.abort();
    await votes.complete;
    stopListening();
    return votes;
  }

  /** Sends one command in the background: no caller of the store depends on the outcome. */
  async tell<Answer>(
    node: RedlockNode,
    id: string | null,
    limitMs: number,
    send: Send<Answer>,
  ): Promise<Answer> {
    const state = this.#states.get(node) as NodeState;
    if (state.background >= BACKGROUND_MAX) throw notSent(state);
    state.background += 1;
    try {
      return await this.#commands.run((signal) => this.#send(node, state, id, signal, send), limitMs);
    } finally {
      state.background -= 1;
    }
  }

  async #send<Answer>(
    node: RedlockNode,
    { turns }: NodeState,
    id: string | null,
    signal: AbortSignal,
    send: Send<Answer>,
  ): Promise<Answer> {
    if (id === null) return await send(node, signal);
    // A command whose time limit passes before its turn is not sent.
    return await turns.run(id, () => send(node, signal));
  }

  limitMs(ttlMs: number = DEFAULTS.settings.ttlMs): number {
    return Math.min(Math.max(ttlMs * NODE_SHARE, NODE_MS.min), NODE_MS.max);
  }

  /** The error if two clients lead to one server: its vote would count twice. */
  sameServer(): InvalidArgumentError | null {
    for (const node of this.nodes) {
      const first = this.nodes.find(({ serverId }) => serverId === node.serverId);
      if (node.serverId === null || first === undefined || first === node) continue;
      return new InvalidArgumentError(
        'clients',
        `must be different servers: ${first.label} and ${node.label} are one`,
      );
    }
    return null;
  }
}

/** With the error of the client, if there is one. */
function notSent({ silence }: NodeState): StoreError {
  const { cause } = (silence ?? {}) as { readonly cause?: unknown };
  const problem = 'Not sent: other commands wait for this node, which does not answer';
  return new StoreError(problem, { applied: 'no', cause });
}
