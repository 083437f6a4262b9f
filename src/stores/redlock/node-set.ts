import type { Clock, Timer } from '../../clock.ts';
import { InvalidArgumentError, StoreError } from '../../errors.ts';
import { onAbort } from '../../util/abort.ts';
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
 * once. So a node that cannot be reached costs neither memory nor time. Its first answer ends that.
 */
const SILENT_WAITING_MAX = 8;
/**
 * The same for commands in the background, which wait longer. A node that does not get a release
 * keeps the claim for its TTL.
 */
const BACKGROUND_MAX = 256;

/** The state of one node, and how many commands wait for it. */
interface NodeState {
  /** Why the last command had no answer in time; `null` if it had one. */
  silence: unknown;
  waiting: number;
  background: number;
}

/** One question to all nodes. */
export interface Question<Answer> {
  /** The claim of the question, if any. The commands of a claim are sent in order. */
  readonly id: string | null;
  /** The nodes have a share of it to answer. */
  readonly ttlMs: number;
  send(node: RedlockNode, signal: AbortSignal): Promise<Answer>;
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
  /**
   * The commands of one claim go to each node one at a time. A majority decides before the last node
   * has answered, so a release may follow a vote that still waits for its connection. If the release
   * overtook the vote, the claim would be left at that node. If a vote overtook the command that takes
   * an earlier vote back, a grant that was counted would be removed.
   */
  readonly #turns = new Turns();
  readonly #states: readonly NodeState[];
  #hasAsked = false;
  #isDistinct = false;

  constructor(nodes: readonly RedlockNode[], clock: Clock) {
    this.nodes = nodes;
    this.majority = Math.floor(nodes.length / 2) + 1;
    this.clock = clock;
    this.#commands = new Commands(clock);
    this.#states = nodes.map(() => ({ silence: null, waiting: 0, background: 0 }));
  }

  get size(): number {
    return this.nodes.length;
  }

  /**
   * Asks every node at once. Resolves when the outcome is decided, or when all nodes have answered
   * or failed: a slow node delays only what depends on it. Later answers still count for
   * `whenComplete`.
   */
  ask<Answer>({ id, ttlMs, send, isDecided, signal }: Question<Answer>): Promise<NodeAnswers<Answer>> {
    const votes = new NodeAnswers<Answer>(this.nodes);
    const limitMs = this.#hasAsked ? this.limitMs(ttlMs) : Math.max(this.limitMs(ttlMs), FIRST_MS);
    const command = this.#commands.begin<void>(limitMs);
    const either = signal === undefined ? command.signal : firstOf(command.signal, signal, votes);
    return new Promise((resolve) => {
      const settle = (index: number, result: Result<Answer>, isLate: boolean): void => {
        const state = this.#states[index];
        if (state === undefined || !votes.set(index, result)) return;
        state.waiting -= 1;
        state.silence = isLate && 'error' in result ? result.error : null;
        if (votes.pending === 0 || isDecided(votes)) resolve(votes);
      };
      for (const [index, state] of this.#states.entries()) {
        state.waiting += 1;
        if (state.silence !== null && state.waiting > SILENT_WAITING_MAX) {
          settle(index, { error: notSent(state) }, true);
          continue;
        }
        this.#send(id, index, either, send).then(
          (answer) => settle(index, { answer }, false),
          (error: unknown) => settle(index, { error }, command.signal.aborted),
        );
      }
      const complete = new Promise<void>((done) => votes.whenComplete(done));
      command.settle(complete).catch((error: unknown) => {
        for (const index of this.nodes.keys()) settle(index, { error }, true);
      });
      votes.whenComplete(() => {
        this.#hasAsked = true;
      });
    });
  }

  /**
   * Asks every node, without a time limit for a majority. When a majority has answered or failed,
   * the other nodes have as long again: a silent node delays no caller for long.
   */
  async gather<Answer>(
    send: (node: RedlockNode, signal: AbortSignal) => Promise<Answer>,
    signal: AbortSignal | undefined,
  ): Promise<NodeAnswers<Answer>> {
    const enough = new AbortController();
    const stopListening = onAbort(signal, () => enough.abort());
    if (signal?.aborted === true) enough.abort();
    const startedMs = this.clock.monotonicMs();
    const votes = new NodeAnswers<Answer>(this.nodes);
    let timer: Timer | null = null;
    const onSettled = (): void => {
      if (this.size - votes.pending !== this.majority) return;
      const tookMs = this.clock.monotonicMs() - startedMs;
      timer = this.clock.startTimer(Math.max(tookMs, NODE_MS.max), () => enough.abort());
    };
    const sent = this.nodes.map((node, index) =>
      send(node, enough.signal).then(
        (answer) => votes.set(index, { answer }),
        (error: unknown) => votes.set(index, { error }),
      ),
    );
    for (const each of sent) void each.then(onSettled);
    await Promise.all(sent);
    (timer as Timer | null)?.cancel();
    stopListening();
    return votes;
  }

  /**
   * Sends one command to each of these nodes in the background: no caller depends on the outcome.
   */
  tell<Answer>(
    id: string | null,
    nodes: readonly RedlockNode[],
    limitMs: number,
    send: (node: RedlockNode, signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer>[] {
    return nodes.map((node) => {
      const index = this.nodes.indexOf(node);
      const told = this.#inBackground(index, (signal) => this.#send(id, index, signal, send), limitMs);
      told.catch(() => {});
      return told;
    });
  }

  async #send<Answer>(
    id: string | null,
    index: number,
    signal: AbortSignal,
    send: (node: RedlockNode, signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const turn = id === null ? null : this.#turns.begin(`${index}\n${id}`);
    const end = turn instanceof Promise ? await turn : turn;
    try {
      // The time limit is over, so a reply would not be counted.
      if (turn !== end && signal.aborted)
        throw new StoreError('Not sent within the time limit', { applied: 'no' });
      return await send(this.nodes[index] as RedlockNode, signal);
    } finally {
      end?.();
    }
  }

  #inBackground<Answer>(
    index: number,
    send: (signal: AbortSignal) => Promise<Answer>,
    limitMs: number,
  ): Promise<Answer> {
    const state = this.#states[index];
    if (state === undefined || state.background >= BACKGROUND_MAX) return Promise.reject(notSent(state));
    state.background += 1;
    return this.#commands.run(send, limitMs).finally(() => {
      state.background -= 1;
    });
  }

  /** Whether all of this work succeeds within the time. The rest goes on after that. */
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

  async close(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.close()));
  }

  /** Throws if two clients lead to one server: its vote would count twice. */
  assertDistinct(): void {
    if (this.#isDistinct) return;
    const seen = new Map<string, RedlockNode>();
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
}

/** With the error of the client, if there is one. */
function notSent(state: NodeState | undefined): StoreError {
  const { cause } = (state?.silence ?? {}) as { readonly cause?: unknown };
  const problem = 'Not sent: other commands wait for this node, which does not answer';
  return new StoreError(problem, { applied: 'no', cause });
}

/** Aborts with the first of the two. Removes its listeners when all votes are there. */
function firstOf(limit: AbortSignal, signal: AbortSignal, votes: NodeAnswers<unknown>): AbortSignal {
  if (signal.aborted) return signal;
  const controller = new AbortController();
  const abort = (): void => controller.abort();
  const stops = [onAbort(limit, abort), onAbort(signal, abort)];
  votes.whenComplete(() => {
    for (const stop of stops) stop();
  });
  return controller.signal;
}
