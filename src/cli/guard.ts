import { spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { type FromGuard, nowMs, onMessage, send, type ToGuard } from './guard-message.ts';
import { endGroup, signalGroup } from './process-group.ts';

/**
 * The parent of the command, and a process of its own: when `holdfast run` is killed or stopped,
 * the guard ends the command in time. It knows nothing of locks, only the time by which it must
 * have received a message about a renewal.
 */
class Guard {
  readonly #channel: Socket;
  #group: number | null = null;
  #graceMs = 0;
  #timer: NodeJS.Timeout | null = null;
  #ending: Promise<void> | null = null;

  constructor(channel: Socket) {
    this.#channel = channel;
    onMessage<ToGuard>(channel, (message) => this.#onMessage(message));
    // A closed pipe means that holdfast has ended.
    channel.on('close', () => this.#onAbandoned());
    channel.on('error', () => {});
    // holdfast passes on a signal to the foreground group of the terminal.
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => {});
  }

  #onMessage(message: ToGuard): void {
    if ('start' in message) this.#start(message.start);
    else if ('endAt' in message) this.#endAt(message.endAt);
    else if ('signal' in message) this.#pass(message.signal);
    else void this.#end();
  }

  #start({ file, args, env, graceMs }: Extract<ToGuard, { start: unknown }>['start']): void {
    this.#graceMs = graceMs;
    // Detached: the leader of a process group of its own, to which its children belong as well.
    const child = spawn(file, args, { stdio: 'inherit', detached: true, env });
    child.on('error', (error: NodeJS.ErrnoException) => {
      this.#send({ failed: { code: error.code ?? '', message: error.message } });
    });
    child.on('exit', (code, signal) => void this.#onExit(code, signal));
    if (child.pid === undefined) return;
    this.#group = child.pid;
    this.#send({ started: child.pid });
  }

  #endAt(ms: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#end(), Math.max(ms - nowMs(), 0));
  }

  #pass(signal: NodeJS.Signals): void {
    if (this.#group !== null) signalGroup(this.#group, signal);
  }

  async #end(): Promise<void> {
    if (this.#group === null) return;
    if (this.#ending === null) {
      this.#send({ ending: true });
      this.#ending = endGroup(this.#group, this.#graceMs);
    }
    await this.#ending;
  }

  async #onExit(code: number | null, signal: NodeJS.Signals | null): Promise<void> {
    if (this.#timer !== null) clearTimeout(this.#timer);
    // When the guard ended the command, its children must have ended as well before the report.
    await this.#ending;
    // Children that outlive a command that succeeded are not ended when holdfast closes the
    // channel.
    if (code === 0 && this.#ending === null) this.#group = null;
    this.#send({ exited: { code, signal } });
    this.#channel.end();
  }

  #onAbandoned(): void {
    void this.#end().finally(() => process.exit());
  }

  #send(message: FromGuard): void {
    if (this.#channel.writable) send(this.#channel, message);
  }
}

new Guard(new Socket({ fd: 3, readable: true, writable: true }));
