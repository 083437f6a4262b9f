import type { Clock } from '../../../clock.ts';
import { pause } from '../../../hold/pause.ts';
import { noConnection } from '../failure.ts';
import { type Link, type Listening, ping } from '../link.ts';
import { Debts } from './debts.ts';
import type { ClusterNode, ClusterNodes } from './nodes.ts';
import { SlotTable } from './slot-table.ts';
import { CommandSlots, slotOf } from './slots.ts';
import { Subscriptions } from './subscriptions.ts';

/** More redirects than this in one command mean that the nodes do not agree. */
const REDIRECTS_MAX = 8;
/** While a slot moves, commands of several keys have to wait for it: so often, so long apart. */
const TRIES_MAX = 40;
const TRY_AGAIN_MS = 100;
/** How long a connection to a node may take. */
const CONNECT_MS = 500;
/** Between two looks at who serves what. */
const LOOK_AGAIN_MS = 250;
const LOOK_MS = 1_000;

/** A command waits for it. When its owner closes the client meanwhile, nothing else keeps the process alive until the command has failed. */
const AWAITED = { keepAlive: true } as const;

const MOVED = /^(MOVED|ASK) (\d+) (\S+)/;

/**
 * The connections of a Cluster client to its nodes as one link. Which node a command goes to is decided here, by what the nodes themselves say: the libraries
 * differ in what they do about a dead master, and one of them waits for it for ever.
 */
export class ClusterLink implements Link {
  readonly breaks = 0;
  readonly keyPrefix = '';
  /** Channels that belong to a slot came with it. */
  readonly versionMin = [7, 0] as const;
  readonly #nodes: ClusterNodes;
  readonly #clock: Clock;
  readonly #table = new SlotTable();
  readonly #subscriptions: Subscriptions;
  readonly #debts: Debts;
  readonly #slots = new CommandSlots();
  /** By slot: resolves when everything has its answer that was not answered the first time. */
  readonly #again = new Map<number, Promise<void>>();
  #looking: Promise<void> | null = null;
  #isLeft = false;
  #lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(nodes: ClusterNodes, clock: Clock) {
    this.#nodes = nodes;
    this.#clock = clock;
    this.#debts = new Debts(clock, () => void this.#look());
    this.#subscriptions = new Subscriptions(clock, {
      nodeOf: (slot) => this.#masterOf(slot),
      look: () => this.#look(),
    });
  }

  get isReady(): boolean {
    return this.#table.isLoaded && this.#nodes.isReady;
  }

  get whyClosed(): string | null {
    return this.#nodes.whyClosed;
  }

  get lastError(): Error | null {
    return this.#nodes.lastError;
  }

  get isRefused(): boolean {
    return this.#nodes.isRefused;
  }

  onceReady(callback: () => void): void {
    const go = (): void => {
      if (!this.#nodes.isReady) callback();
      else void this.#look().then(loaded);
    };
    const loaded = (): void => {
      if (this.isReady || this.#isLeft) callback();
      else this.#clock.startTimer(LOOK_AGAIN_MS, go, AWAITED);
    };
    if (this.#nodes.isReady) go();
    else this.#nodes.onceReady(go);
  }

  /** To the node that serves the first key; a command without keys goes to any node, or to that of the key `beside` it. */
  send(name: string, args: string[], beside?: string): Promise<unknown> {
    const slot = this.#slots.of(name, args, beside);
    if (slot === null) return this.#sendAny(name, args);
    const before = this.#again.get(slot);
    if (before === undefined) return this.#sendTo(slot, name, args, 0);
    return before.then(() => this.#sendTo(slot, name, args, 0));
  }

  sendYielding(name: string, args: string[]): Promise<unknown> {
    const node = this.#masterOf(this.#slots.of(name, args) ?? 0);
    if (node?.link.isReady === true) ping(node.link);
    return this.send(name, args);
  }

  async servers(): Promise<readonly Link[]> {
    const masters = this.#table.masters().map((address) => this.#nodes.at(address));
    const found = await Promise.allSettled(
      masters.map(async (node) => {
        const link = node && (await this.#ready(node));
        // One that is stopped is connected, and says nothing.
        if (link !== null) await this.#within(LOOK_MS, link.send('ping', []));
        return link;
      }),
    );
    return found.flatMap((each) => (each.status === 'fulfilled' && each.value !== null ? [each.value] : []));
  }

  listen(channel: string, listening: Listening): { close(): Promise<void> } {
    return this.#subscriptions.add(channel, slotOf(channel), listening);
  }

  /** The store of each slot takes its leave. */
  leave(): void {
    if (this.#isLeft) return;
    this.#isLeft = true;
    this.#debts.close();
    this.#subscriptions.close();
    this.#nodes.leave();
  }

  close(): Promise<void> {
    return this.#nodes.close();
  }

  #sendTo(slot: number, name: string, args: string[], tries: number): Promise<unknown> {
    const address = this.#table.addressOf(slot);
    const node = address === undefined ? null : this.#nodes.at(address);
    if (node === null || address === undefined)
      return this.#inOrder(slot, this.#sendUnknown(slot, name, args, tries));
    if (!node.link.isReady) return this.#inOrder(slot, this.#sendWhenReady(slot, node, name, args, tries));
    return new Promise((resolve, reject) => {
      const settle = this.#debts.add(address, slot, reject);
      node.link.send(name, args).then(
        (reply) => {
          settle();
          resolve(reply);
        },
        (error: unknown) => {
          // Who was told that there is no answer has asked again since; to follow a redirect now would do it twice.
          if (settle()) resolve(this.#inOrder(slot, this.#onError(error, slot, name, args, tries)));
        },
      );
    });
  }

  /**
   * A command that is sent once more is not overtaken by what is sent for its slot after it. Otherwise a claim that was given up meanwhile could be granted after its release
   * had found nothing, and would be nobody's.
   */
  #inOrder(slot: number, sending: Promise<unknown>): Promise<unknown> {
    const settled = Promise.allSettled([this.#again.get(slot), sending]).then(() => {
      if (this.#again.get(slot) === settled) this.#again.delete(slot);
    });
    this.#again.set(slot, settled);
    return sending;
  }

  async #sendWhenReady(
    slot: number,
    node: ClusterNode,
    name: string,
    args: string[],
    tries: number,
  ): Promise<unknown> {
    try {
      await this.#ready(node);
    } catch (error) {
      // Nothing was sent. Who serves the slot now is found out for the next try.
      void this.#look();
      throw error;
    }
    return await this.#sendTo(slot, name, args, tries);
  }

  /** Nobody is known to serve it, or only an address that the client has no connection to. */
  async #sendUnknown(slot: number, name: string, args: string[], tries: number): Promise<unknown> {
    this.#nodes.refresh();
    if (tries >= REDIRECTS_MAX) throw new Error(`CLUSTERDOWN nobody is known to serve slot ${slot}`);
    await pause(this.#clock, TRY_AGAIN_MS, AWAITED);
    await this.#look();
    return await this.#sendTo(slot, name, args, tries + 1);
  }

  async #onError(
    error: unknown,
    slot: number,
    name: string,
    args: string[],
    tries: number,
  ): Promise<unknown> {
    const message = error instanceof Error ? error.message : '';
    const [, kind, , address = ''] = MOVED.exec(message) ?? [];
    if (kind === 'MOVED' && tries < REDIRECTS_MAX) {
      if (this.#table.move(slot, address)) this.#onMoved();
      void this.#look();
      return await this.#sendTo(slot, name, args, tries + 1);
    }
    if (kind === 'ASK' && tries < REDIRECTS_MAX) return await this.#ask(address, slot, name, args, tries);
    if (message.startsWith('TRYAGAIN') && tries < TRIES_MAX) {
      await pause(this.#clock, TRY_AGAIN_MS, AWAITED);
      return await this.#sendTo(slot, name, args, tries + 1);
    }
    if (!message.startsWith('NOSCRIPT')) void this.#look();
    throw error;
  }

  /** The slot is on its way to that node, which answers only to who says that it has been sent there. */
  async #ask(address: string, slot: number, name: string, args: string[], tries: number): Promise<unknown> {
    const node = this.#nodes.at(address);
    if (node === null) return await this.#sendUnknown(slot, name, args, tries);
    const link = await this.#ready(node);
    const asking = link.send('asking', []);
    asking.catch(() => {});
    try {
      return await link.send(name, args);
    } catch (error) {
      return await this.#onError(error, slot, name, args, tries + 1);
    }
  }

  async #sendAny(name: string, args: string[]): Promise<unknown> {
    const [address] = this.#table.masters();
    const node = address === undefined ? null : this.#nodes.at(address);
    const link = this.#nodes.known().find((each) => each.link.isReady)?.link ?? node?.link;
    if (link === undefined) throw new Error('CLUSTERDOWN there is no connection to any node');
    return await link.send(name, args);
  }

  #masterOf(slot: number): ClusterNode | null {
    const address = this.#table.addressOf(slot);
    return address === undefined ? null : this.#nodes.at(address);
  }

  /** Rejects when that takes too long. */
  #ready(node: ClusterNode): Promise<Link> {
    const { link } = node;
    if (link.isReady) return Promise.resolve(link);
    return new Promise((resolve, reject) => {
      const fail = (): void => reject(noConnection(link));
      const timer = this.#clock.startTimer(CONNECT_MS, fail, AWAITED);
      link.onceReady(() => {
        timer.cancel();
        if (link.isReady) resolve(link);
        else fail();
      });
    });
  }

  /** Asks a node who serves what, unless that was done just now. Never rejects. */
  #look(): Promise<void> {
    const over = (): void => {
      this.#looking = null;
    };
    // Nobody waits for most looks: a failure, such as one of the user's own `natMap`, must not become an unhandled rejection.
    this.#looking ??= this.#lookAround().then(over, over);
    return this.#looking;
  }

  async #lookAround(): Promise<void> {
    const waitMs = this.#lookedAtMs + LOOK_AGAIN_MS - this.#clock.monotonicMs();
    if (waitMs > 0) await pause(this.#clock, waitMs, AWAITED);
    this.#lookedAtMs = this.#clock.monotonicMs();
    const nodes = this.#nodes.known();
    // Those that answer come first; a node that is only reconnecting may be the dead one.
    const inOrder = [
      ...nodes.filter(({ link }) => link.isReady),
      ...nodes.filter(({ link }) => !link.isReady),
    ];
    for (const node of inOrder) {
      try {
        const link = await this.#ready(node);
        const reply = await this.#within(LOOK_MS, link.send('cluster', ['slots']));
        if (this.#table.load(reply)) this.#onMoved();
        this.#nodes.refresh();
        return;
      } catch {
        // The next one may know.
      }
    }
  }

  #onMoved(): void {
    this.#subscriptions.onMoved();
    this.#debts.writeOff((slot) => this.#table.addressOf(slot));
  }

  async #within<T>(ms: number, work: Promise<T>): Promise<T> {
    return await new Promise<T>((resolve, reject) => {
      const timer = this.#clock.startTimer(ms, () => reject(new Error('no answer in time')));
      work.then(resolve, reject).finally(() => timer.cancel());
    });
  }
}
