import { constants } from 'node:os';
import { defaultOwner } from '../claim-id.ts';
import { systemClock } from '../clock.ts';
import type { Hold } from '../hold/hold.ts';
import type { Locks } from '../locks.ts';
import { openLocks } from '../open.ts';
import type { Use } from '../use.ts';
import { pause } from '../util/backoff.ts';
import { isStoreError } from '../util/error-code.ts';
import { EXIT } from './exit-code.ts';
import { type CommandResult, GuardedCommand } from './guarded-command.ts';
import type { HoldTerms } from './hold-options.ts';
import { painter, quoted } from './text.ts';
import { giveUpAfter, rejectAfter } from './time-limit.ts';
import { describeRefusal, WaitStatus } from './wait-status.ts';

const PASSED_ON = [
  'SIGINT',
  'SIGTERM',
  'SIGHUP',
  'SIGQUIT',
  'SIGUSR1',
  'SIGUSR2',
  'SIGTSTP',
  'SIGCONT',
  'SIGWINCH',
] as const;
/** These also end the wait for a lock that is not held yet. */
const ENDING: ReadonlySet<NodeJS.Signals> = new Set(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT']);

/**
 * How long to wait for the store after the command has ended. A lease that could not be released
 * by then expires by itself.
 */
export const CLOSE_MS = 2_000;

const EXTEND_PAUSE_MS = 100;

class Interrupted extends Error {
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
    this.signal = signal;
  }
}

/** How a command has ended. */
export interface CommandEnd {
  /** The exit code for it. */
  readonly code: number;
  /** It was ended because its hold was lost, or was about to be. */
  readonly isLost: boolean;
}

/** What every verb that runs a command under a hold has in common. */
export class HeldCommand {
  readonly #name: string;
  readonly #command: readonly string[];
  readonly #terms: HoldTerms;
  readonly #waiting = new AbortController();
  readonly #owner = defaultOwner(systemClock);
  #guard: GuardedCommand | null;
  #isRunning = false;

  constructor(name: string, command: readonly string[], terms: HoldTerms, guard: GuardedCommand | null) {
    this.#guard = guard;
    this.#name = name;
    this.#command = command;
    this.#terms = terms;
    for (const signal of PASSED_ON) process.on(signal, () => this.#onSignal(signal));
  }

  /** For the call that acquires the hold. The signal ends the wait, not the hold. */
  get settings(): { readonly ttlMs: number; readonly renewEveryMs: number; readonly signal: AbortSignal } {
    const { ttlMs, renewEveryMs } = this.#terms;
    return { ttlMs, renewEveryMs, signal: this.#waiting.signal };
  }

  /** Opens the store for as long as `use` takes. Resolves to the exit code of `use`. */
  async execute(url: string, use: (locks: Locks) => Promise<number>): Promise<number> {
    try {
      const locks = await openLocks(url, { owner: this.#owner, connect: false });
      try {
        return await use(locks);
      } finally {
        await giveUpAfter(CLOSE_MS, locks.close({ drainMs: 0 }));
      }
    } catch (error) {
      if (error instanceof Interrupted) return 128 + constants.signals[error.signal];
      throw error;
    } finally {
      this.#guard?.dismiss();
    }
  }

  #onSignal(signal: NodeJS.Signals): void {
    if (this.#isRunning) this.#guard?.pass(signal);
    else if (ENDING.has(signal)) this.#waiting.abort(new Interrupted(signal));
  }

  /** Shows on a terminal what a call waits for. */
  async whileWaiting<T>(locks: Locks, use: Use, acquire: () => Promise<T>): Promise<T> {
    const status = new WaitStatus(locks, this.#name, use, this.#owner, painter(process.stderr));
    const stops = [
      locks.on('waiting', () => {
        // The wait may be long: the guard, a whole process, is started again when it is needed.
        this.#guard?.dismiss();
        this.#guard = null;
        if (process.stderr.isTTY) status.start();
      }),
      locks.on('acquired', () => status.stop()),
    ];
    try {
      return await acquire();
    } finally {
      for (const stop of stops) stop();
      status.stop();
    }
  }

  /** The only try found the lock held: reports by which process. */
  async notInTime(locks: Locks, use: Use): Promise<number> {
    const view = await rejectAfter(CLOSE_MS, locks.inspect(this.#name, { use })).catch(() => null);
    process.stderr.write(`holdfast: ${describeRefusal(this.#name, view)}\n`);
    return EXIT.notInTime;
  }

  /** Runs the command, and ends it when the hold is lost. Does not release the hold. */
  async run(locks: Locks, hold: Hold): Promise<CommandEnd> {
    const guard = this.#guard ?? new GuardedCommand();
    this.#guard = guard;
    const { graceMs, marginMs } = this.#terms;
    try {
      await this.#extendShortGrant(hold);
    } finally {
      // A signal that came meanwhile has found no command to pass it on to.
      this.#waiting.signal.throwIfAborted();
    }
    const postpone = (): void => guard.endIn(hold.remainingMs - graceMs - marginMs);
    const stop = locks.on('renewed', (event) => {
      if (event.id === hold.id) postpone();
    });
    hold.signal.addEventListener('abort', () => guard.end());
    const [file = '', ...args] = this.#command;
    const env = { ...process.env, HOLDFAST_NAME: this.#name, HOLDFAST_FENCE: hold.fence.toString() };
    try {
      const result = guard.run(file, args, env, graceMs);
      postpone();
      this.#isRunning = true;
      return this.#endOf(await result, hold);
    } finally {
      stop();
      this.#isRunning = false;
      this.#guard = null;
    }
  }

  /**
   * A grant that the store has pushed is short until the first renewal, perhaps shorter than the
   * grace. While the hold stands, a failure of the store is no reason to give it up. Rejects with a
   * `HoldLostError` once it is lost.
   */
  async #extendShortGrant(hold: Hold): Promise<void> {
    while (hold.remainingMs < this.#terms.ttlMs / 2 && !this.#waiting.signal.aborted) {
      try {
        await hold.extend();
        return;
      } catch (error) {
        if (!isStoreError(error)) throw error;
        hold.assertHeld();
        await pause(systemClock, EXTEND_PAUSE_MS, { keepAlive: true, signal: this.#waiting.signal });
      }
    }
  }

  /** Says that the lock was lost. */
  lost(how: string): number {
    process.stderr.write(`holdfast: lost the lock ${quoted(this.#name)} ${how}\n`);
    return EXIT.lost;
  }

  #endOf(result: CommandResult, hold: Hold): CommandEnd {
    if (result.kind === 'failed') {
      process.stderr.write(`holdfast: cannot run ${quoted(this.#command[0] ?? '')}: ${result.message}\n`);
      const code = result.code === 'ENOENT' ? EXIT.notFound : EXIT.cannotExecute;
      return { code, isLost: false };
    }
    if (result.kind === 'unguarded') {
      const what = result.isEnded
        ? 'the command was ended'
        : 'the command may have started, and may still run';
      process.stderr.write(`holdfast: the guard of the command was killed; ${what}\n`);
      return { code: EXIT.lost, isLost: false };
    }
    if (result.ended || hold.signal.aborted)
      return { code: this.lost('and ended the command'), isLost: true };
    const { code, signal } = result;
    return {
      code: signal === null ? (code ?? EXIT.internal) : 128 + constants.signals[signal],
      isLost: false,
    };
  }
}
