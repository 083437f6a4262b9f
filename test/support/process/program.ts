import { type ChildProcess, spawn } from 'node:child_process';

export interface Result {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program of Node.js that was started, and what it has printed so far. */
export class Program {
  readonly child: ChildProcess;
  stdout = '';
  stderr = '';
  readonly #closed: Promise<void>;
  #isClosed = false;

  constructor(child: ChildProcess) {
    this.child = child;
    this.#closed = new Promise((resolve) => child.once('close', () => resolve()));
    child.once('close', () => {
      this.#isClosed = true;
    });
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
  }

  async result(): Promise<Result> {
    // Not when it exits: output may still be on its way then.
    await this.#closed;
    return { code: this.child.exitCode, stdout: this.stdout, stderr: this.stderr };
  }

  /** Waits until the text has been printed. */
  async printed(text: string, limitMs = 60_000): Promise<void> {
    const giveUpAt = performance.now() + limitMs;
    while (!this.stdout.includes(text)) {
      if (this.#isClosed || performance.now() > giveUpAt)
        throw new Error(`"${text}" was not printed; got "${this.stdout}" and "${this.stderr}"`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

const running = new Set<Program>();

export interface ProgramOptions {
  /** Added to the environment of the tests. */
  readonly env?: NodeJS.ProcessEnv | undefined;
  readonly cwd?: string | undefined;
  /** Node.js unless set. */
  readonly executable?: string | undefined;
}

export function startProgram(file: string, args: readonly string[], options: ProgramOptions = {}): Program {
  const child = spawn(options.executable ?? process.execPath, [file, ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...options.env },
    cwd: options.cwd,
  });
  child.stdin?.on('error', () => {});
  const program = new Program(child);
  running.add(program);
  child.on('exit', () => running.delete(program));
  return program;
}

/** For `afterEach` or `afterAll`: kills the programs that are left, also paused ones. */
export async function stopPrograms(): Promise<void> {
  for (const each of [...running]) {
    each.child.kill('SIGCONT');
    each.child.kill('SIGKILL');
    await each.result();
  }
}
