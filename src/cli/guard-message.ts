import type { Duplex } from 'node:stream';

/**
 * Messages of `holdfast run` to its guard. Times are milliseconds of the monotonic clock of the
 * host, which both processes share.
 */
export type ToGuard =
  | {
      readonly start: {
        readonly file: string;
        readonly args: readonly string[];
        readonly env: NodeJS.ProcessEnv;
        readonly graceMs: number;
      };
    }
  /** Without a later message, the guard begins to end the command at this time. */
  | { readonly endAt: number }
  | { readonly end: true }
  | { readonly signal: NodeJS.Signals };

/** Messages of the guard to `holdfast run`. */
export type FromGuard =
  | { readonly started: number }
  | { readonly failed: { readonly code: string; readonly message: string } }
  | { readonly ending: true }
  | { readonly exited: { readonly code: number | null; readonly signal: NodeJS.Signals | null } };

export function nowMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

export function send(channel: Duplex, message: ToGuard | FromGuard): void {
  channel.write(`${JSON.stringify(message)}\n`);
}

/** Calls back for each whole line. */
export function onMessage<T extends ToGuard | FromGuard>(
  channel: Duplex,
  listener: (message: T) => void,
): void {
  let rest = '';
  channel.setEncoding('utf8');
  channel.on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) listener(JSON.parse(line) as T);
  });
}
