import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Route } from './backends/backend.ts';
import type { ClockShim } from './servers/clock-shim.ts';
import type { FaultProxy } from './servers/fault-proxy.ts';
import type { Server } from './servers/server.ts';
import type { Worker, WorkerPool } from './worker-pool.ts';

const KILL_FREE_MS = 4_000;
const HOLDER_MS = 1_000;
/**
 * How often a fault is injected, where others are injected once. These reveal most bugs of lock
 * libraries, or reveal one only when another process holds the lock at that moment.
 */
const TIMES: Readonly<Record<string, number>> = { stop: 2, clock: 2, 'late-reply': 5 };

/** Faults of a worker process. */
export const PROCESS_FAULTS = ['kill', 'stop', 'clock'] as const;
/** Faults of the connections of one worker. */
export const LINK_FAULTS = [
  'cut',
  'silent',
  'one-way',
  'delay',
  'late-reply',
  'lost-reply',
  'half-open',
  'refuse',
] as const;
/** Faults of a server that keeps what it has confirmed. */
export const SERVER_FAULTS = ['freeze', 'restart', 'failover'] as const;
/** Faults after which a server has lost what it confirmed: injected only when named explicitly. */
export const EXTREME_FAULTS = ['wipe', 'server-clock'] as const;
export const FAULTS: readonly string[] = [
  ...PROCESS_FAULTS,
  ...LINK_FAULTS,
  ...SERVER_FAULTS,
  ...EXTREME_FAULTS,
];

/** A worker, its connections and its clock; the process is replaced when it has died. */
export interface Slot {
  worker: Worker;
  readonly route: Route;
  readonly clock: ClockShim | null;
}

export interface FaultsOptions {
  readonly pool: WorkerPool;
  readonly slots: readonly Slot[];
  readonly servers: readonly Server[];
  /** The leader, where servers elect one. */
  leader?(): Promise<Server>;
  /** Makes a replica the master, where the servers have masters. */
  failover?(random: () => number): Promise<void>;
  readonly serverClock: ClockShim | null;
  /** A lock ends with its connection, and only the end of the connection reports it. */
  readonly isSessionBound: boolean;
  /** PostgreSQL leaves processes behind when it is killed. */
  readonly killSignal: NodeJS.Signals;
  readonly ttlMs: number;
  readonly kinds: readonly string[];
  random(): number;
}

/** Injects faults, several at once. One worker is always unharmed, and half of them always run. */
export class Faults {
  readonly #options: FaultsOptions;
  readonly counts: Record<string, number> = {};
  readonly #active = new Set<Promise<void>>();
  readonly #busySlots = new Set<Slot>();
  readonly #busyProxies = new Set<FaultProxy>();
  #isServerBusy = false;
  #upcoming: string[] = [];

  constructor(options: FaultsOptions) {
    this.#options = options;
  }

  /** Starts a fault every few hundred milliseconds. Resolves when every fault has ended. */
  async burst(forMs: number): Promise<void> {
    const { random } = this.#options;
    for (const endMs = performance.now() + forMs; performance.now() < endMs; ) {
      await sleep(100 + random() * 300);
      const kind = this.#next();
      // No process is killed near the end: a dead waiter would delay handoffs in the quiet period.
      const isLate = kind === 'kill' && endMs - performance.now() < KILL_FREE_MS;
      if (isLate) this.#upcoming.unshift('kill');
      else if (kind !== undefined) this.#begin(kind);
    }
    await Promise.all(this.#active);
  }

  /**
   * Loses replies of half of the workers. A request that is sent again without looking for what the
   * first one did leaves a claim behind, which blocks the lock in the quiet period that follows.
   */
  async loseReplies(): Promise<void> {
    const { kinds, random, slots } = this.#options;
    if (!kinds.includes('lost-reply')) return;
    const shuffled = [...slots].sort(() => random() - 0.5);
    const chosen = shuffled.slice(0, Math.ceil(slots.length / 2));
    const proxies = new Set(chosen.flatMap(({ route }) => route.proxies));
    if (proxies.size === 0) return;
    this.#count('lost-reply');
    await this.#failProxies('lost-reply', [...proxies]);
  }

  /** Kills a worker that holds a lock, as soon as one does. */
  async killHolder(): Promise<void> {
    if (!this.#options.kinds.includes('kill')) return;
    for (const endMs = performance.now() + HOLDER_MS; performance.now() < endMs; await sleep(5)) {
      const holders = this.#options.slots.slice(1).filter(({ worker }) => worker.holds.size > 0);
      const slot = this.#pick(holders);
      if (slot === undefined) continue;
      this.#count('kill');
      slot.worker.child.kill('SIGKILL');
      return;
    }
  }

  /** Every kind as often as it should be, in a random order, then all again in another order. */
  #next(): string | undefined {
    const { kinds, random } = this.#options;
    if (this.#upcoming.length === 0)
      this.#upcoming = kinds
        .flatMap((kind) => Array<string>(TIMES[kind] ?? 1).fill(kind))
        .sort(() => random() - 0.5);
    return this.#upcoming.pop();
  }

  #begin(kind: string): void {
    const work = this.#start(kind);
    if (work === null) {
      // Every target is failing already; this kind is tried later.
      this.#upcoming.unshift(kind);
      return;
    }
    this.#count(kind);
    const done = work.finally(() => this.#active.delete(done));
    this.#active.add(done);
  }

  #start(kind: string): Promise<void> | null {
    if ((LINK_FAULTS as readonly string[]).includes(kind)) return this.#failLink(kind);
    if ((PROCESS_FAULTS as readonly string[]).includes(kind)) return this.#failProcess(kind);
    return this.#failServer(kind);
  }

  #faultMs(): number {
    return 100 + this.#options.random() * this.#options.ttlMs * 1.3;
  }

  #failProcess(kind: string): Promise<void> | null {
    const { slots, random, ttlMs } = this.#options;
    // The heap of the first worker is measured over the whole run: it is not killed.
    const candidates = kind === 'kill' ? slots.slice(1) : slots;
    const free = candidates.filter((slot) => !this.#busySlots.has(slot) && slot.worker.isRunning);
    if (this.#busySlots.size >= Math.max(1, Math.floor(slots.length / 2))) return null;
    const holders = free.filter(({ worker }) => worker.holds.size > 0);
    const slot = this.#pick(holders.length > 0 && random() < 0.8 ? holders : free);
    if (slot === undefined) return null;
    if (kind === 'kill') {
      slot.worker.child.kill('SIGKILL');
      return Promise.resolve();
    }
    // Clocks are mostly set back: a deadline by the wall clock is then too late.
    const shift = Math.round((random() < 0.85 ? -1 : 1) * (5 + random() * 600));
    return this.#during(
      slot,
      this.#stop(slot, ttlMs * (1.1 + random() * 0.5), kind === 'clock' ? shift : null),
    );
  }

  async #stop({ worker, clock }: Slot, forMs: number, shift: number | null): Promise<void> {
    worker.isStopped = true;
    worker.child.kill('SIGSTOP');
    if (shift !== null) clock?.set(shift);
    await sleep(forMs);
    worker.child.kill('SIGCONT');
    worker.isStopped = false;
  }

  /** Replies come late at two workers at once: few of them belong to a grant. */
  #failLink(kind: string): Promise<void> | null {
    const failing = [this.#failLinkOfOne(kind), kind === 'late-reply' ? this.#failLinkOfOne(kind) : null];
    return failing[0] === null ? null : Promise.all(failing).then(() => {});
  }

  #failLinkOfOne(kind: string): Promise<void> | null {
    const { slots, random } = this.#options;
    if (this.#busySlots.size >= slots.length - 1) return null;
    const free = slots.filter(
      ({ route }) => route.proxies.length > 0 && !route.proxies.some((proxy) => this.#busyProxies.has(proxy)),
    );
    const slot = this.#pick(free.filter((each) => !this.#busySlots.has(each)));
    if (slot === undefined) return null;
    const some = slot.route.proxies.filter(() => random() < 0.7);
    return this.#during(slot, this.#failProxies(kind, some.length > 0 ? some : slot.route.proxies));
  }

  async #failProxies(kind: string, proxies: readonly FaultProxy[]): Promise<void> {
    const { random } = this.#options;
    for (const proxy of proxies) this.#busyProxies.add(proxy);
    const way = random() < 0.5 ? 'toClient' : 'toServer';
    for (const proxy of proxies) {
      if (kind === 'silent') proxy.drop('both');
      else if (kind === 'one-way') proxy.drop(way);
      else if (kind === 'delay') proxy.delay(20 + random() * 300);
      else if (kind === 'late-reply') proxy.holdReplies();
      else if (kind === 'lost-reply') proxy.drop('toClient');
      else if (kind === 'half-open') proxy.halfOpen();
      else if (kind === 'refuse') proxy.refuse();
      if (kind === 'refuse' || kind === 'cut') proxy.cut();
    }
    // Long enough for a command to be sent, too short for a lease to run out.
    if (kind === 'lost-reply') await sleep(50 + random() * 350);
    // A reply that arrives after the TTL confirms a grant that has run out.
    else if (kind === 'late-reply') await sleep(this.#options.ttlMs * (1.05 + random() / 2));
    else if (kind !== 'cut') await sleep(this.#faultMs());
    for (const proxy of proxies) {
      if (kind === 'lost-reply') proxy.cut();
      proxy.pass();
      this.#busyProxies.delete(proxy);
    }
  }

  #failServer(kind: string): Promise<void> | null {
    if (this.#isServerBusy) return null;
    this.#isServerBusy = true;
    const work = async (): Promise<void> => {
      try {
        const { failover, leader, servers, random } = this.#options;
        if (kind === 'failover' && failover !== undefined) return await failover(random);
        const server = kind === 'failover' ? await leader?.() : this.#pick(servers);
        if (server === undefined) return;
        if (kind === 'freeze') await this.#freeze(server);
        else if (kind === 'server-clock') this.#shiftServer();
        else await this.#restart(server, kind === 'wipe');
      } finally {
        this.#isServerBusy = false;
      }
    };
    return work();
  }

  async #freeze(server: Server): Promise<void> {
    server.kill('SIGSTOP');
    await sleep(this.#faultMs());
    server.kill('SIGCONT');
  }

  #shiftServer(): void {
    this.#options.serverClock?.set(Math.round((this.#options.random() - 0.3) * 20));
  }

  async #restart(server: Server, isWiped: boolean): Promise<void> {
    const { isSessionBound, killSignal, random } = this.#options;
    // A paused holder, or one with a silent connection, could not learn that its session has ended.
    if (isSessionBound) for (const slot of this.#options.slots) await this.#quiet(slot);
    server.kill(killSignal);
    await server.exited();
    if (isWiped)
      for (const name of ['appendonlydir', 'dump.rdb'])
        rmSync(join(server.dir, name), { recursive: true, force: true });
    await sleep(random() * 300);
    await server.start();
    if (isSessionBound) {
      await sleep(500);
      for (const slot of this.#options.slots) this.#busySlots.delete(slot);
    }
  }

  /** Waits until no fault of the worker is active, and keeps new ones from starting. */
  async #quiet(slot: Slot): Promise<void> {
    while (this.#busySlots.has(slot)) await sleep(20);
    this.#busySlots.add(slot);
  }

  async #during(slot: Slot, work: Promise<void>): Promise<void> {
    this.#busySlots.add(slot);
    await work;
    this.#busySlots.delete(slot);
  }

  #count(kind: string): void {
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
    this.#options.pool.note({ kind: 'fault', fault: kind });
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.#options.random() * items.length)];
  }
}
