import type { Clock } from '../../../clock.ts';
import { pause, settlesWithin } from '../../../util/backoff.ts';
import { type ChannelEvents, ping, type RedisConnection } from '../connection.ts';
import { type ClusterNode, type ClusterNodes, NodeReadiness } from './nodes.ts';
import { isRenewal } from './open-slot.ts';
import { PendingReplies } from './pending-replies.ts';
import { SlotTable, slotOf, slotOfCommand } from './slots.ts';
import { Subscriptions } from './subscriptions.ts';

/**
 * How often a command is sent again. With more redirects than this, the nodes do not agree, or a
 * slot stays open for long: the caller then gets the error.
 */
const TRIES_MAX = 8;
/** The delay before a command is sent again: its slot is being moved, or its node is not known. */
const TRY_AGAIN_MS = 100;
/** The shortest time between two requests for the table of slots. */
const LOAD_EVERY_MS = 250;
/** How long a node may take to reply with the table, or to a PING. */
const REPLY_MS = 1_000;
/**
 * The same for a command of a slot that is being moved to the node. Later commands of the slot wait
 * for that reply, also when the move is cancelled because the node is silent.
 */
const ASKED_REPLY_MS = 3_000;

/** If the owner closes the client meanwhile, only this keeps the process alive for the caller. */
const AWAITED = { keepAlive: true } as const;

/** A master, as `masters` finds it. */
export interface ClusterMaster {
  readonly address: string;
  readonly slot: number;
  readonly connection: RedisConnection | null;
}

const REDIRECT = /^(MOVED|ASK) (\d+) (\S+)/;

/** A command, and the slot of its keys. */
interface Command {
  readonly slot: number;
  readonly name: string;
  readonly args: string[];
}

/**
 * All connections of a Cluster client to its nodes, as one connection. Chooses the node of each
 * command, because one of the client libraries would wait for a dead master for ever.
 */
export class ClusterConnection implements RedisConnection {
  readonly breaks = 0;
  readonly keyPrefix = '';
  /** Sharded channels need Redis 7. */
  readonly versionMin = [7, 0] as const;
  readonly #nodes: ClusterNodes;
  readonly #clock: Clock;
  readonly #table = new SlotTable();
  readonly #subscriptions: Subscriptions;
  readonly #pendingReplies: PendingReplies;
  readonly #readiness: NodeReadiness;
  /** By slot: resolves when every command that is sent again has its reply. */
  readonly #retries = new Map<number, Promise<void>>();
  #loading: Promise<void> | null = null;
  #loadedAtMs = Number.NEGATIVE_INFINITY;
  #isLeft = false;

  constructor(nodes: ClusterNodes, clock: Clock) {
    this.#nodes = nodes;
    this.#clock = clock;
    this.#readiness = new NodeReadiness(clock);
    this.#pendingReplies = new PendingReplies(clock, () => void this.#loadTable());
    this.#subscriptions = new Subscriptions(
      (slot) => this.#masterOf(slot),
      () => this.#loadTable(),
      clock,
    );
  }

  get isReady(): boolean {
    return this.#table.isLoaded && this.#nodes.isReady;
  }

  get closedReason(): string | null {
    return this.#nodes.closedReason;
  }

  get lastError(): Error | null {
    return this.#nodes.lastError;
  }

  get isRefused(): boolean {
    return this.#nodes.isRefused;
  }

  /** Not called back when the table of slots could not be loaded: the caller then asks again. */
  onceReady(callback: () => void): () => void {
    if (!this.#nodes.isReady) return this.#nodes.onceReady(callback);
    let isCancelled = false;
    void this.#loadTable().then(() => {
      if (this.isReady && !isCancelled) callback();
    });
    return () => {
      isCancelled = true;
    };
  }

  /** A command of this slot can be sent now, and overtakes none that is being sent again. */
  isSlotReady(slot: number): boolean {
    if (this.#masterOf(slot)?.connection?.isReady !== true || this.#retries.has(slot)) return false;
    return !this.#isStuck(slot);
  }

  /** The node of the slot has left so many commands without a reply that it gets no more. */
  #isStuck(slot: number): boolean {
    const address = this.#table.addressOf(slot);
    return address !== undefined && this.#pendingReplies.isStuck(address);
  }

  /** Rejects when no node is known to serve the slot, or it is not reached or does not answer. */
  async whenSlotReady(slot: number): Promise<void> {
    for (let tries = 0; !this.isSlotReady(slot); tries += 1) {
      if (this.#isStuck(slot)) throw new Error('CLUSTERDOWN the node of this lock does not answer');
      await this.#retries.get(slot);
      if (!this.isSlotReady(slot)) await this.#reach(slot, tries);
    }
  }

  /** Sends to the node that serves the first key of the command, or the key `beside`. */
  send(name: string, args: string[], beside?: string): Promise<unknown> {
    const command = { slot: slotOfCommand(name, args, beside), name, args };
    const before = this.#retries.get(command.slot);
    if (before === undefined) return this.#sendTo(command, 0);
    return before.then(() => this.#sendTo(command, 0));
  }

  sendYielding(name: string, args: string[]): Promise<unknown> {
    const connection = this.#masterOf(slotOfCommand(name, args))?.connection;
    if (connection?.isReady === true) ping(connection);
    return this.send(name, args);
  }

  async servers(): Promise<readonly RedisConnection[]> {
    return (await this.masters()).flatMap(({ connection }) => (connection === null ? [] : [connection]));
  }

  /** Every master, each with a slot that it serves. `connection: null`: it does not answer. */
  async masters(): Promise<readonly ClusterMaster[]> {
    return await Promise.all(
      this.#table.masters().map(async (address) => {
        const connection = await this.#answering(address).catch(() => null);
        return { address, slot: this.#table.slotOf(address), connection };
      }),
    );
  }

  async #answering(address: string): Promise<RedisConnection | null> {
    const node = this.#nodes.at(address);
    if (node === null) return null;
    const connection = await this.#readiness.wait(node);
    // A stopped node is connected, and does not reply.
    await this.#within(REPLY_MS, connection.send('ping', []));
    return connection;
  }

  listen(channels: string[], events: ChannelEvents): { close(): void } {
    return this.#subscriptions.add(channels, slotOf(channels[0] ?? ''), events);
  }

  /** The store of each slot calls this. */
  leave(): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    this.#pendingReplies.close();
    this.#subscriptions.close();
    this.#nodes.leave();
  }

  close(): Promise<void> {
    return this.#nodes.close();
  }

  #sendTo(command: Command, tries: number): Promise<unknown> {
    const { slot, name, args } = command;
    const address = this.#table.addressOf(slot);
    const connection = address === undefined ? undefined : this.#nodes.at(address)?.connection;
    if (address === undefined || connection?.isReady !== true) {
      const reached = this.#reach(slot, tries);
      return this.#inOrder(
        slot,
        reached.then(() => this.#sendTo(command, tries + 1)),
      );
    }
    return new Promise((resolve, reject) => {
      const settle = this.#pendingReplies.add(address, slot, reject);
      connection.send(name, args).then(
        (reply) => {
          settle();
          resolve(reply);
        },
        (error: unknown) => {
          // A caller whose command was rejected has sent it again: no redirect is followed.
          if (settle()) resolve(this.#inOrder(slot, this.#onError(error, command, tries)));
        },
      );
    });
  }

  /**
   * Later commands of a slot do not overtake a command that is sent again: a claim that was given
   * up could be granted after its release has found nothing.
   */
  #inOrder(slot: number, sending: Promise<unknown>): Promise<unknown> {
    const settled = Promise.allSettled([this.#retries.get(slot), sending]).then(() => {
      if (this.#retries.get(slot) === settled) this.#retries.delete(slot);
    });
    this.#retries.set(slot, settled);
    return sending;
  }

  async #onError(error: unknown, command: Command, tries: number): Promise<unknown> {
    const message = error instanceof Error ? error.message : '';
    const [, kind, , address = ''] = REDIRECT.exec(message) ?? [];
    const mayTry = tries < TRIES_MAX;
    if (kind === 'MOVED' && mayTry) {
      if (this.#table.move(command.slot, address)) this.#subscriptions.onMoved();
      void this.#loadTable();
      return await this.#sendTo(command, tries + 1);
    }
    if (kind === 'ASK' && mayTry) return await this.#ask(address, command, tries);
    if (message.startsWith('TRYAGAIN') && mayTry && !isRenewal(command.args)) {
      await pause(this.#clock, TRY_AGAIN_MS, AWAITED);
      return await this.#sendTo(command, tries + 1);
    }
    if (!message.startsWith('NOSCRIPT')) void this.#loadTable();
    throw error;
  }

  /** The slot is being moved to that node, which accepts its commands only after ASKING. */
  async #ask(address: string, command: Command, tries: number): Promise<unknown> {
    const node = this.#nodes.at(address);
    if (node === null) {
      await this.#findMaster(command.slot, tries);
      return await this.#sendTo(command, tries + 1);
    }
    const connection = await this.#readiness.wait(node);
    connection.send('asking', []).catch(() => {});
    try {
      return await this.#within(ASKED_REPLY_MS, connection.send(command.name, command.args));
    } catch (error) {
      return await this.#onError(error, command, tries + 1);
    }
  }

  #masterOf(slot: number): ClusterNode | null {
    const address = this.#table.addressOf(slot);
    return address === undefined ? null : this.#nodes.at(address);
  }

  /** Rejects when no node is known to serve the slot, or when its node cannot be reached. */
  async #reach(slot: number, tries: number): Promise<void> {
    const node = this.#masterOf(slot);
    if (node === null) return await this.#findMaster(slot, tries);
    try {
      await this.#readiness.wait(node);
    } catch (error) {
      // Nothing was sent. The table is loaded, so that the next attempt finds the right node.
      void this.#loadTable();
      throw error;
    }
  }

  async #findMaster(slot: number, tries: number): Promise<void> {
    this.#nodes.refresh();
    if (tries >= TRIES_MAX) throw new Error(`CLUSTERDOWN no node is known to serve slot ${slot}`);
    await pause(this.#clock, TRY_AGAIN_MS, AWAITED);
    await this.#loadTable();
  }

  /** Loads the table of slots from a node, unless that was done just now. Never rejects. */
  #loadTable(): Promise<void> {
    // Most callers do not await this, and the user's `natMap` may throw.
    this.#loading ??= this.#loadFromAnyNode()
      .catch(() => {})
      .finally(() => {
        this.#loading = null;
      });
    return this.#loading;
  }

  async #loadFromAnyNode(): Promise<void> {
    const waitMs = this.#loadedAtMs + LOAD_EVERY_MS - this.#clock.monotonicMs();
    if (waitMs > 0) await pause(this.#clock, waitMs, AWAITED);
    this.#loadedAtMs = this.#clock.monotonicMs();
    const isReady = ({ connection }: ClusterNode): number => (connection?.isReady === true ? 1 : 0);
    // Connected nodes come first: a node that is reconnecting may be the dead one.
    for (const node of [...this.#nodes.known()].sort((a, b) => isReady(b) - isReady(a))) {
      try {
        const connection = await this.#readiness.wait(node);
        const reply = await this.#within(REPLY_MS, connection.send('cluster', ['slots']));
        if (this.#table.load(reply)) this.#subscriptions.onMoved();
        // After every load: a command may have been too young at the time of the change.
        this.#pendingReplies.failMoved((slot) => this.#table.addressOf(slot));
        this.#nodes.refresh();
        return;
      } catch {
        // Ask the next node.
      }
    }
  }

  async #within<T>(ms: number, work: Promise<T>): Promise<T> {
    if (!(await settlesWithin(this.#clock, work, ms))) throw new Error('no answer in time');
    return await work;
  }
}
