import { type ChildProcess, spawn } from 'node:child_process';
import { extname, join } from 'node:path';
import type { Duplex } from 'node:stream';
import { type FromGuard, nowMs, onMessage, send, type ToGuard } from './guard-message.ts';
import { endGroup } from './process-group.ts';

export type CommandResult =
  | {
      readonly kind: 'exited';
      readonly code: number | null;
      readonly signal: NodeJS.Signals | null;
      readonly ended: boolean;
    }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }
  /**
   * The guard itself was killed. The command was ended if the guard had reported its process group.
   */
  | { readonly kind: 'unguarded'; readonly isEnded: boolean };

/**
 * A command that runs under a guard. The guard is started first, since that takes a while and can
 * happen while the lock is being acquired.
 */
export class GuardedCommand {
  readonly #guard: ChildProcess;
  readonly #channel: Duplex;
  #group: number | null = null;
  #graceMs = 0;
  #ended = false;
  #result: CommandResult | null = null;
  #settle: ((result: CommandResult) => void) | null = null;

  constructor() {
    const file = join(__dirname, `guard${extname(__filename)}`);
    // In a session of its own, so that neither the terminal nor a signal to our group reaches it.
    this.#guard = spawn(process.execPath, [...process.execArgv, file], {
      stdio: ['inherit', 'inherit', 'inherit', 'pipe'],
      detached: true,
    });
    this.#channel = this.#guard.stdio[3] as Duplex;
    this.#channel.on('error', () => {});
    this.#channel.on('close', () => void this.#onClose());
    this.#guard.on('error', (error) =>
      this.#finish({ kind: 'failed', code: 'GUARD', message: error.message }),
    );
    onMessage<FromGuard>(this.#channel, (message) => this.#onMessage(message));
  }

  run(
    file: string,
    args: readonly string[],
    env: NodeJS.ProcessEnv,
    graceMs: number,
  ): Promise<CommandResult> {
    this.#graceMs = graceMs;
    return new Promise((resolve) => {
      this.#settle = resolve;
      if (this.#result !== null) resolve(this.#result);
      else this.#send({ start: { file, args, env, graceMs } });
    });
  }

  /** The guard ends the command after `ms`, unless this is called again before. */
  endIn(ms: number): void {
    this.#send({ endAt: nowMs() + ms });
  }

  end(): void {
    this.#ended = true;
    this.#send({ end: true });
  }

  pass(signal: NodeJS.Signals): void {
    this.#send({ signal });
  }

  /** Ends a guard whose command was never started. */
  dismiss(): void {
    this.#channel.destroy();
  }

  #send(message: ToGuard): void {
    if (this.#channel.writable) send(this.#channel, message);
  }

  #onMessage(message: FromGuard): void {
    if ('started' in message) this.#group = message.started;
    else if ('ending' in message) this.#ended = true;
    else if ('failed' in message) this.#finish({ kind: 'failed', ...message.failed });
    else this.#finish({ kind: 'exited', ...message.exited, ended: this.#ended });
  }

  async #onClose(): Promise<void> {
    if (this.#result !== null) return;
    if (this.#group !== null) await endGroup(this.#group, this.#graceMs);
    this.#finish({ kind: 'unguarded', isEnded: this.#group !== null });
  }

  #finish(result: CommandResult): void {
    if (this.#result !== null) return;
    this.#result = result;
    this.#channel.destroy();
    this.#settle?.(result);
  }
}
