import { constants } from 'node:os';
import { defaultOwner } from '../claim-id.ts';
import { systemClock } from '../clock.ts';
import type { Hold } from '../hold/hold.ts';
import type { Locks } from '../locks.ts';
import { openLocks } from '../open.ts';
import type { Lockable } from '../primitives/lockable.ts';
import { type RunOptions, type RunTerms, resolveRun } from './arguments.ts';
import { atMost, within } from './bounded.ts';
import { EXIT } from './exit-code.ts';
import { type CommandResult, GuardedCommand } from './guarded-command.ts';
import { painter, quoted } from './text.ts';
import { describeRefusal, WaitingLine } from './waiting-line.ts';

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

/** The command has ended and nobody waits for anything else: what the store does not answer by then runs out by itself. */
const CLOSE_MS = 2_000;

/** Runs a command under a lock. Resolves to the exit code. */
export async function run(
  url: string,
  name: string,
  command: readonly string[],
  options: RunOptions,
  guard: GuardedCommand | null,
): Promise<number> {
  return await new Run(name, command, resolveRun(options), guard).execute(url);
}

class Interrupted extends Error {
  readonly signal: NodeJS.Signals;

  constructor(signal: NodeJS.Signals) {
    super(`interrupted by ${signal}`);
    this.signal = signal;
  }
}

class Run {
  readonly #name: string;
  readonly #command: readonly string[];
  readonly #terms: RunTerms;
  readonly #waiting = new AbortController();
  readonly #owner = defaultOwner(systemClock);
  #guard: GuardedCommand | null;
  #isRunning = false;

  constructor(name: string, command: readonly string[], terms: RunTerms, guard: GuardedCommand | null) {
    this.#guard = guard;
    this.#name = name;
    this.#command = command;
    this.#terms = terms;
    for (const signal of PASSED_ON) process.on(signal, () => this.#onSignal(signal));
  }

  async execute(url: string): Promise<number> {
    try {
      const locks = await openLocks(url, { owner: this.#owner });
      try {
        const hold = await this.#acquire(locks);
        return hold === null ? await this.#notInTime(locks) : await this.#hold(locks, hold);
      } finally {
        await atMost(CLOSE_MS, locks.close({ drainMs: 0 }));
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

  async #acquire(locks: Locks): Promise<Hold | null> {
    const { ttlMs, renewEveryMs, waitMs } = this.#terms;
    const lock = lockOf(locks, this.#name, this.#terms);
    const settings = { ttlMs, renewEveryMs, signal: this.#waiting.signal };
    if (waitMs === 0) return await lock.tryAcquire(settings);
    const line = new WaitingLine(locks, this.#name, this.#owner, painter(process.stderr));
    const stop = locks.on('waiting', () => {
      // It may be long: the guard, a whole process, is started again when its time has come.
      this.#guard?.dismiss();
      this.#guard = null;
      if (process.stderr.isTTY) line.start();
    });
    try {
      return await lock.acquire({ ...settings, waitMs });
    } finally {
      stop();
      line.stop();
    }
  }

  async #notInTime(locks: Locks): Promise<number> {
    const view = await within(CLOSE_MS, locks.inspect(this.#name)).catch(() => null);
    process.stderr.write(`holdfast: ${describeRefusal(this.#name, view)}\n`);
    return EXIT.notInTime;
  }

  async #hold(locks: Locks, hold: Hold): Promise<number> {
    const guard = this.#guard ?? new GuardedCommand();
    this.#guard = guard;
    const { graceMs, marginMs } = this.#terms;
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
      const code = this.#exitCode(await result, hold);
      return (await this.#wasTaken(hold)) ? this.#lost('before the command ended') : code;
    } finally {
      stop();
    }
  }

  /** Gives the lock back. True when somebody had taken it away before we heard of it. */
  async #wasTaken(hold: Hold): Promise<boolean> {
    const wasTold = hold.signal.aborted;
    const release = hold.release().then(
      (released) => !released && !wasTold,
      () => false,
    );
    return await Promise.race([
      release,
      new Promise<false>((resolve) => setTimeout(resolve, CLOSE_MS, false).unref()),
    ]);
  }

  #lost(how: string): number {
    process.stderr.write(`holdfast: lost the lock ${quoted(this.#name)} ${how}\n`);
    return EXIT.lost;
  }

  #exitCode(result: CommandResult, hold: Hold): number {
    if (result.kind === 'failed') {
      process.stderr.write(`holdfast: cannot run ${quoted(this.#command[0] ?? '')}: ${result.message}\n`);
      return result.code === 'ENOENT' ? EXIT.notFound : EXIT.cannotExecute;
    }
    if (result.kind === 'unguarded') {
      process.stderr.write('holdfast: the guard of the command was killed; the command was ended\n');
      return EXIT.lost;
    }
    if (result.ended || hold.signal.aborted) return this.#lost('and ended the command');
    return result.signal === null ? (result.code ?? EXIT.internal) : 128 + constants.signals[result.signal];
  }
}

function lockOf(locks: Locks, name: string, { mode }: RunTerms): Lockable {
  if (mode.kind === 'exclusive') return locks.mutex(name);
  if (mode.kind === 'shared') return locks.readWriteLock(name).read;
  const semaphore = locks.semaphore(name, { permits: mode.of });
  const permits = mode.count;
  return {
    acquire: (options) => semaphore.acquire({ ...options, permits }),
    tryAcquire: (options) => semaphore.tryAcquire({ ...options, permits }),
    run: (fn, options) => semaphore.run(fn, { ...options, permits }),
  };
}
