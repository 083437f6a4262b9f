import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Locks, openLocks } from '../../../src/index.ts';
import type { BackendKind } from '../../../src/torture/backends/backend.ts';
import { startBackend } from '../../../src/torture/backends/start-backend.ts';
import { randomFrom } from '../../../src/torture/random.ts';
import { ttlMsOf, urlWithTtl } from './ttl.ts';

export interface KilledHoldersOptions {
  readonly kind: BackendKind;
  readonly deaths: number;
  readonly seed: number;
  /** The compiled `process/holder.ts`. */
  readonly script: string;
  /** How many locks are held at the same time; 10 unless set. */
  readonly locksAtOnce?: number;
  /** What the holders ask for: the TTL that the result is judged by, unless a mistake is planted. */
  readonly holderTtlMs?: number;
}

export interface KilledHoldersResult {
  readonly ttlMs: number;
  /** From each death until a waiter of another process held the lock. */
  readonly tookMs: readonly number[];
  /** The times that were longer than the TTL and a second. */
  readonly late: readonly number[];
}

const SLACK_MS = 1_000;
/** A holder dies at any moment of a renewal interval, after the waiter has entered the queue. */
const QUEUED_MS = 200;
const WAIT_MS = 60_000;

/** Kills processes that hold a lock, each while another process waits, and measures until that one holds. */
export async function killHolders(options: KilledHoldersOptions): Promise<KilledHoldersResult> {
  const { kind, deaths, seed, script, locksAtOnce = 10 } = options;
  await using backend = await startBackend(kind, { nodes: 3, isDurable: true });
  const ttlMs = ttlMsOf(kind);
  const url = urlWithTtl(kind, backend.url, ttlMs);
  const holderTtlMs = options.holderTtlMs ?? ttlMs;
  const holderUrl = urlWithTtl(kind, backend.url, holderTtlMs);
  const locks = await openLocks(url, { ttlMs, waitMs: WAIT_MS });
  const random = randomFrom(seed);
  const tookMs: number[] = [];
  let left = deaths;
  const work = async (n: number): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const name = `killed-holder-${n}`;
      const holder = await startHolder(script, holderUrl, name, holderTtlMs);
      tookMs.push(await followMs(locks, name, holder, QUEUED_MS + random() * ttlMs));
    }
  };
  try {
    await Promise.all(Array.from({ length: locksAtOnce }, (_, n) => work(n)));
  } finally {
    await locks.close({ drainMs: 0 });
  }
  return { ttlMs, tookMs, late: tookMs.filter((each) => each > ttlMs + SLACK_MS) };
}

/** Resolves when it holds the lock. */
async function startHolder(script: string, url: string, name: string, ttlMs: number): Promise<ChildProcess> {
  const child = spawn(process.execPath, [script, url, name, String(ttlMs)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  for await (const line of createInterface({ input: child.stdout })) if (line === 'holds') return child;
  throw new Error(`the holder of ${name} ended before it held the lock`);
}

/** How long a waiter takes to hold the lock after its holder was killed. */
async function followMs(locks: Locks, name: string, holder: ChildProcess, afterMs: number): Promise<number> {
  const following = locks
    .mutex(name)
    .acquire()
    .then((hold) => ({ hold, atMs: performance.now() }));
  await sleep(afterMs);
  const killedMs = performance.now();
  holder.kill('SIGKILL');
  const { hold, atMs } = await following;
  await hold.release();
  return atMs - killedMs;
}
