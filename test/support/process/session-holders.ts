import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import type { LossReason } from '../../../src/errors.ts';
import type { Locks } from '../../../src/index.ts';
import { eventually, later } from '../waiting/eventually.ts';
import { closeAndExit, EXITED_AT_ONCE } from './close-and-exit.ts';
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
  child.stdout.on('data', (data: Buffer) => output.push(...data.toString().trim().split('\n')));
  return { child, output };
}

async function startHolder(
  subject: SessionSubject,
  name: string,
  what: 'stay' | 'leave',
): Promise<Taker & { fence: bigint }> {
  const { child, output } = startTaker(subject, name, what, 2_000);
  await eventually('the process holds the lock', () => output.length > 0);
  return { child, fence: BigInt(output[0]?.split(' ')[1] ?? '0'), output };
}

/** The cases of a process that holds a lock and is killed, paused, or ends. */
export function itEndsWithItsProcess(subject: SessionSubject): void {
  const { open, titles } = subject;

  it(titles.killed, async () => {
    const { child, fence } = await startHolder(subject, 'killed', 'stay');
    const waiting = later(open().mutex('killed').acquire());
    await sleep(300);
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
    const { child } = await startHolder(subject, 'left', 'leave');
    const [code] = (await once(child, 'exit')) as [number | null];
    expect(code).toBe(0);
    await (await open().mutex('left').acquire()).release();
  });

  it('closes the store, continues, and exits by itself', async () => {
    expect(await closeAndExit(subject.url)).toBe(EXITED_AT_ONCE);
  });
}
