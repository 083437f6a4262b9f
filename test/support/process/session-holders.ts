import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import type { LossReason } from '../../../src/errors.ts';
import type { Locks } from '../../../src/index.ts';
import { eventually, later } from '../waiting/eventually.ts';
import { closeAndExit, EXITED_AT_ONCE } from './close-and-exit.ts';
import { closed, type Ending } from './closed.ts';
import { compiled } from './compiled.ts';

const TAKER = fileURLToPath(new URL('./taker.ts', import.meta.url));

/** A store whose leases or sessions end with their process. */
export interface SessionSubject {
  /** For the processes that take a lock. */
  readonly url: string;
  /** For this process. */
  open(): Locks;
  atTheEnd(undo: () => Promise<unknown> | unknown): void;
  /** How long the lock of a killed process stays taken, with time for a busy machine. */
  readonly freedWithinMs: number;
  /** Why a process that was paused for longer than that has lost its hold. */
  readonly pausedLoss: LossReason;
  readonly titles: { readonly killed: string; readonly paused: string; readonly left: string };
}

export interface Taker {
  readonly child: ChildProcess;
  /** The lines that it has printed. */
  readonly output: string[];
  readonly ended: Promise<Ending>;
}

/** Starts a process that takes the lock. */
export function startTaker(
  { url, atTheEnd }: SessionSubject,
  name: string,
  what: 'stay' | 'leave',
  ttlMs?: number,
): Taker {
  const ttl = ttlMs === undefined ? [] : [String(ttlMs)];
  const args = ['--unhandled-rejections=strict', compiled(TAKER), url, name, what, ...ttl];
  const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  atTheEnd(() => void child.kill('SIGKILL'));
  const output: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => output.push(line));
  return { child, output, ended: closed(child) };
}

async function startHolder(
  subject: SessionSubject,
  name: string,
  what: 'stay' | 'leave',
): Promise<Taker & { fence: bigint }> {
  const taker = startTaker(subject, name, what, 2_000);
  await eventually('the process holds the lock', () => taker.output.length > 0);
  return { ...taker, fence: BigInt(taker.output[0]?.split(' ')[1] ?? '0') };
}

/** The cases of a process that holds a lock and is killed, paused, or ends. */
export function itEndsWithItsProcess(subject: SessionSubject): void {
  const { open, titles } = subject;

  it(titles.killed, async () => {
    const { child, fence } = await startHolder(subject, 'killed', 'stay');
    const locks = open();
    const waiting = later(locks.mutex('killed').acquire());
    await eventually('it is waited for', async () => (await locks.inspect('killed')).waiters.length === 1);
    child.kill('SIGKILL');
    const killedAt = performance.now();
    const hold = await waiting;
    expect(performance.now() - killedAt).toBeLessThan(subject.freedWithinMs);
    expect(hold.fence).toBeGreaterThan(fence);
  });

  it(titles.paused, async () => {
    const { child, fence, output } = await startHolder(subject, 'paused', 'stay');
    child.kill('SIGSTOP');
    const hold = await open().mutex('paused').acquire();
    child.kill('SIGCONT');
    expect(hold.fence).toBeGreaterThan(fence);
    await eventually('the process reports the loss', () => output.length > 1);
    expect(output[1]).toBe(`lost ${subject.pausedLoss}`);
    hold.assertHeld();
    expect((await open().inspect('paused')).holders).toHaveLength(1);
  });

  it(titles.left, async () => {
    const { ended } = await startHolder(subject, 'left', 'leave');
    expect(await ended).toEqual({ code: 0, signal: null });
    await (await open().mutex('left').acquire()).release();
  });

  it('closes the store, continues, and exits by itself', async () => {
    expect(await closeAndExit(subject.url)).toBe(EXITED_AT_ONCE);
  });
}
