import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll } from 'vitest';
import { compiled } from '../../support/process/compiled.ts';

const BLOCKER = fileURLToPath(new URL('./blocker.ts', import.meta.url));

/** What the first statements after the block found of one lock. */
interface Found {
  readonly lost: string | null;
  readonly remainingMs: number;
  readonly isAborted: boolean;
  /** Of a signal that was read before the block, on a later turn. */
  readonly isAbortedLater: boolean;
  readonly stalledMs: number;
  readonly fence: string;
}

interface Report {
  readonly found: Readonly<Record<string, Found>>;
  /** Before the locks are released. */
  readonly atMs: number;
}

export interface BlockedProcess {
  readonly pid: number;
  readonly report: Promise<Report>;
  readonly exitCode: Promise<number | null>;
}

const running = new Set<ChildProcess>();
afterAll(() => {
  // Also the ones that a failed test has left paused.
  for (const child of running) child.kill('SIGKILL');
});

/**
 * Starts a process that holds these locks (`thread:NAME`, `inline:NAME`). Resolves when it holds
 * them, and blocks.
 */
export async function startBlocked(
  url: string,
  times: { readonly ttlMs: number; readonly blockMs: number },
  names: readonly string[],
): Promise<BlockedProcess> {
  const args = ['--unhandled-rejections=strict', compiled(BLOCKER), url];
  const child = spawn(process.execPath, [...args, `${times.ttlMs}`, `${times.blockMs}`, ...names], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  running.add(child);
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const said = async (): Promise<unknown> => {
    const { value, done } = await lines.next();
    if (done === true) throw new Error('the process has ended without a word');
    return JSON.parse(value as string);
  };
  const exitCode = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  await said();
  const report = said() as Promise<Report>;
  report.catch(() => {});
  return { pid: child.pid ?? -1, report, exitCode };
}
