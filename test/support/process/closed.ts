import type { ChildProcess } from 'node:child_process';

/** How a process has ended. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/**
 * Resolves when the process has ended and all of its output has been read. To be called where the
 * process is started: a later listener may have missed the end.
 */
export function closed(child: ChildProcess): Promise<Ending> {
  return new Promise((resolve) => child.once('close', (code, signal) => resolve({ code, signal })));
}
