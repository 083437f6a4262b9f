import { setTimeout as sleep } from 'node:timers/promises';
import type { Backend, Route } from '../../../src/torture/backends/backend.ts';
import type { Server } from '../../../src/torture/servers/server.ts';
import type { TortureWorker, Workers } from './workers.ts';

export type FaultKind = 'kill' | 'stop' | 'cut' | 'silent' | 'delay' | 'refuse' | 'freeze' | 'restart';

export const LINK_FAULTS = ['cut', 'silent', 'delay', 'refuse'] as const;

const START_ATTEMPTS = 3;
/**
 * The lock of a session is free as soon as its connection is reset, and only the connection tells
 * the holder: a paused holder learns of it when it runs again. `docs/safety.md` promises no more.
 */
const ENDS_SESSIONS: ReadonlySet<FaultKind> = new Set(['cut', 'refuse', 'silent', 'restart']);

export interface FaultsOptions {
  readonly backend: Backend;
  readonly routes: readonly Route[];
  readonly workers: Workers;
  readonly ttlMs: number;
  readonly kinds: readonly FaultKind[];
  /** From 0 up to, but not including, 1. */
  random(): number;
  log(text: string): void;
}

/** Faults that this backend can have. */
export function faultKindsOf(backend: Backend): FaultKind[] {
  if (backend.servers.length === 0) return ['kill', 'stop'];
  return ['kill', 'stop', ...LINK_FAULTS, 'freeze', 'restart'];
}

/** A server that a busy machine starts too slowly says nothing about the locks. */
async function startAgain(server: Server): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await server.start();
    } catch (error) {
      if (attempt === START_ATTEMPTS) throw error;
      server.kill('SIGKILL');
      await server.exited();
    }
  }
}

/** Injects one fault after the other; workers may stay paused meanwhile. */
export class Faults {
  readonly #options: FaultsOptions;
  readonly counts: Partial<Record<FaultKind, number>> = {};
  readonly #stops = new Set<Promise<void>>();
  #left: FaultKind[] = [];
  #isOver = false;

  constructor(options: FaultsOptions) {
    this.#options = options;
  }

  get total(): number {
    return Object.values(this.counts).reduce((sum, count) => sum + count, 0);
  }

  /** Runs until `end`. Then every process runs and every connection works. */
  async run(): Promise<void> {
    const { kinds } = this.#options;
    // Each kind once, so that a short run has all of them, and then at random.
    this.#left = [...kinds].sort(() => this.#options.random() - 0.5);
    while (!this.#isOver) {
      await this.#pause(200 + this.#options.random() * 800);
      const kind = this.#left.at(-1) ?? this.#pick(kinds);
      if (!this.#isOver && kind !== undefined) await this.#make(kind);
      this.#left.pop();
    }
    await Promise.all(this.#stops);
    for (const proxy of this.#options.routes.flatMap((route) => route.proxies)) proxy.pass();
  }

  end(): void {
    this.#isOver = true;
  }

  async #make(kind: FaultKind): Promise<void> {
    const { routes, backend, random, ttlMs, log } = this.#options;
    this.counts[kind] = (this.counts[kind] ?? 0) + 1;
    if (backend.kind === 'advisory' && ENDS_SESSIONS.has(kind)) await Promise.all(this.#stops);
    const faultMs = 100 + random() * ttlMs * 1.5;
    log(`${kind} ${faultMs.toFixed(0)}`);
    if (kind === 'kill') this.#worker()?.child.kill('SIGKILL');
    else if (kind === 'stop') this.#stop(ttlMs * (1.1 + random()));
    else if (kind === 'freeze') await this.#freeze(this.#pick(backend.servers), faultMs);
    else if (kind === 'restart') await this.#restart(this.#pick(backend.servers));
    else
      await this.#failLinks(
        kind,
        routes.filter(() => random() < 0.5),
        faultMs,
      );
  }

  async #failLinks(kind: FaultKind, routes: readonly Route[], faultMs: number): Promise<void> {
    const { random } = this.#options;
    const way = this.#pick(['both', 'toClient', 'toServer'] as const) ?? 'both';
    const proxies = routes.flatMap((route) => route.proxies).filter(() => random() < 0.7);
    for (const proxy of proxies) {
      if (kind === 'silent') proxy.drop(way);
      else if (kind === 'delay') proxy.delay(20 + random() * 300);
      else {
        if (kind === 'refuse') proxy.refuse();
        proxy.cut();
      }
    }
    if (kind === 'cut') return;
    await this.#pause(faultMs);
    for (const proxy of proxies) proxy.pass();
  }

  #stop(forMs: number): void {
    const member = this.#worker();
    if (member === undefined) return;
    const stopped = (async () => {
      member.isStopped = true;
      member.child.kill('SIGSTOP');
      await sleep(forMs);
      member.child.kill('SIGCONT');
      member.isStopped = false;
    })();
    this.#stops.add(stopped);
    void stopped.finally(() => this.#stops.delete(stopped));
  }

  async #freeze(server: Server | undefined, forMs: number): Promise<void> {
    server?.kill('SIGSTOP');
    await sleep(forMs);
    server?.kill('SIGCONT');
  }

  /** A crash and a restart. */
  async #restart(server: Server | undefined): Promise<void> {
    const { kind } = this.#options.backend;
    const isPostgres = kind === 'postgres' || kind === 'advisory';
    // SIGKILL would leave the processes of PostgreSQL that serve the connections.
    server?.kill(isPostgres ? 'SIGQUIT' : 'SIGKILL');
    await server?.exited();
    if (server !== undefined) await startAgain(server);
    if (kind === 'advisory') await sleep(1_000);
  }

  /** Preferably one that holds a lock, and not the first, whose heap is measured. */
  #worker(): TortureWorker | undefined {
    const others = this.#options.workers.running.filter(({ id, isStopped }) => id !== 1 && !isStopped);
    const holders = others.filter(({ open }) => open.size > 0);
    return this.#pick(holders.length > 0 && this.#options.random() < 0.7 ? holders : others);
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.#options.random() * items.length)];
  }

  async #pause(ms: number): Promise<void> {
    for (const endMs = performance.now() + ms; !this.#isOver && performance.now() < endMs; )
      await sleep(Math.min(100, Math.max(0, endMs - performance.now())));
  }
}
