import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { createLocks, type Hold, type Locks, type Store } from '../../../src/index.ts';
import { virtualClock } from '../../../src/testing/index.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import type { Server } from '../../../src/torture/servers/server.ts';

interface Member {
  readonly port: number;
  readonly server: Server;
}

/** The members of a cluster, and how to open a store on them. */
export interface SoakCluster {
  readonly members: readonly Member[];
  leader(): Promise<Member>;
  /** `addresses`: `host:port`, one for each member. */
  open(addresses: readonly string[]): Store;
}

interface SoakResult {
  readonly holds: number;
  readonly lost: number;
  readonly failures: number;
  /** Violations, in words. */
  readonly breaches: readonly string[];
}

interface SoakOptions {
  readonly forMs: number;
  readonly workers: number;
  readonly names: number;
  readonly ttlMs: number;
  /** From 0 up to, but not including, 1. */
  random(): number;
  readonly log?: (what: string) => void;
}

export const SOAK_TTL_MS = 2_000;

/** For ten seconds, no two hold at once and every fence rises: see `soak`. */
export async function expectSoundSoak(cluster: SoakCluster): Promise<void> {
  const seed = Math.floor(Math.random() * 2 ** 31);
  const dice = virtualClock({ seed });
  const options = { forMs: 10_000, workers: 5, names: 2, ttlMs: SOAK_TTL_MS, random: () => dice.random() };
  const result = await soak(cluster, options);
  expect(result.breaches, `seed ${seed}`).toEqual([]);
  expect(result.holds, `seed ${seed}`).toBeGreaterThan(10);
}

/** The trusted holder of each lock, and its last fence. */
class Ledger {
  readonly breaches: string[] = [];
  readonly #holders = new Map<string, Hold>();
  readonly #fences = new Map<string, bigint>();

  enter(name: string, hold: Hold): void {
    const other = this.#holders.get(name);
    if (other !== undefined && other.remainingMs > 0)
      this.breaches.push(
        `${name}: ${hold.fence} holds beside ${other.fence}, which has ${other.remainingMs} ms left`,
      );
    const last = this.#fences.get(name) ?? 0n;
    if (hold.fence <= last) this.breaches.push(`${name}: fence ${hold.fence} after ${last}`);
    this.#fences.set(name, hold.fence);
    this.#holders.set(name, hold);
  }

  leave(name: string, hold: Hold): void {
    if (this.#holders.get(name) === hold) this.#holders.delete(name);
  }
}

/**
 * Many workers, each with a connection of its own, take few locks, while members stop and die and
 * connections fail.
 */
async function soak(cluster: SoakCluster, options: SoakOptions): Promise<SoakResult> {
  const ledger = new Ledger();
  const until = performance.now() + options.forMs;
  const proxies = await Promise.all(
    Array.from({ length: options.workers * 3 }, (_, n) => startFaultProxy(cluster.members[n % 3]?.port ?? 0)),
  );
  const all: Locks[] = [];
  const counts = { holds: 0, lost: 0, failures: 0 };
  const work = async (worker: number): Promise<void> => {
    const addresses = proxies.slice(worker * 3, worker * 3 + 3).map(({ port }) => `127.0.0.1:${port}`);
    const locks = createLocks(cluster.open(addresses), { ttlMs: options.ttlMs, waitMs: 20_000 });
    all.push(locks);
    while (performance.now() < until) {
      const name = `soak-${Math.floor(options.random() * options.names)}`;
      try {
        const hold = await locks.mutex(name).acquire();
        ledger.enter(name, hold);
        counts.holds += 1;
        await sleep(options.random() < 0.01 ? options.ttlMs * 1.5 : options.random() * 5);
        if (hold.remainingMs === 0) counts.lost += 1;
        ledger.leave(name, hold);
        await hold.release();
      } catch {
        counts.failures += 1;
      }
    }
  };
  const workers = Promise.all(Array.from({ length: options.workers }, (_, n) => work(n)));
  await meddle(cluster, proxies, until, options);
  await workers;
  await Promise.all(all.map((locks) => locks.close({ drainMs: 0 })));
  await Promise.all(proxies.map((proxy) => proxy.stop()));
  return { ...counts, breaches: ledger.breaches };
}

async function meddle(
  cluster: SoakCluster,
  proxies: readonly FaultProxy[],
  until: number,
  options: SoakOptions,
): Promise<void> {
  const { random, log = () => {} } = options;
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  while (performance.now() < until) {
    await sleep(200 + random() * 800);
    const what = random();
    const faultMs = 300 + random() * options.ttlMs * 1.5;
    if (what < 0.35) {
      const member =
        random() < 0.6 ? await cluster.leader().catch(() => pick(cluster.members)) : pick(cluster.members);
      log(`${member.port} is paused for ${faultMs.toFixed(0)}`);
      member.server.kill('SIGSTOP');
      await sleep(faultMs);
      member.server.kill('SIGCONT');
    } else if (what < 0.5) {
      const member = pick(cluster.members);
      log(`${member.port} dies`);
      member.server.kill('SIGKILL');
      await member.server.exited();
      await sleep(faultMs / 2);
      await member.server.start();
    } else {
      const some = proxies.filter(() => random() < 0.5);
      const way = pick(['both', 'toClient', 'toServer'] as const);
      log(`${some.length} links drop ${way} for ${faultMs.toFixed(0)}`);
      for (const proxy of some) proxy.drop(way);
      await sleep(faultMs);
      for (const proxy of some) proxy.pass();
    }
  }
  for (const proxy of proxies) proxy.pass();
}
