import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
let bundle: Promise<string> | null = null;
let compiled: string | null = null;

afterAll(() => {
  if (compiled !== null) rmSync(compiled, { force: true });
});

/**
 * Compiled once for each test file, because a loader is slow. In the project, to find its
 * libraries.
 */
async function workerFile(): Promise<string> {
  bundle ??= (async () => {
    const folder = `${root}.tmp/sqlite-workers`;
    // Like a home directory: a worker that becomes another user must have loaded its program before.
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    const outfile = `${folder}/sqlite-worker-${process.pid}.mjs`;
    await build({
      entryPoints: [fileURLToPath(new URL('./worker.ts', import.meta.url))],
      outfile,
      bundle: true,
      platform: 'node',
      format: 'esm',
      packages: 'external',
      logLevel: 'error',
    });
    compiled = outfile;
    return outfile;
  })();
  return await bundle;
}

type Message = Record<string, unknown>;

export class Worker {
  readonly child: ChildProcess;
  readonly messages: Message[] = [];
  #stderr = '';
  #onMessage: (() => void) | null = null;
  #exited = false;

  constructor(child: ChildProcess) {
    this.child = child;
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      const parts = (text + chunk).split('\n');
      text = parts.pop() ?? '';
      for (const part of parts) this.messages.push(JSON.parse(part) as Message);
      this.#onMessage?.();
    });
    child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
      this.#stderr += chunk;
    });
    // Not `exit`: its last lines may come after that.
    child.on('close', () => {
      this.#exited = true;
      this.#onMessage?.();
    });
  }

  /** The first message with this key, already received or still to come. */
  async said(key: string, limitMs = 20_000): Promise<Message> {
    const giveUpAt = performance.now() + limitMs;
    for (;;) {
      const found = this.messages.find((message) => key in message);
      if (found !== undefined) return found;
      if (this.#exited) throw new Error(`the worker ended without saying "${key}": ${this.#stderr}`);
      if (performance.now() > giveUpAt) throw new Error(`the worker did not say "${key}" in ${limitMs} ms`);
      await new Promise<void>((resolve) => {
        this.#onMessage = resolve;
        setTimeout(resolve, 100).unref();
      });
    }
  }

  tell(line: string): void {
    this.child.stdin?.write(`${line}\n`);
  }

  kill(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  async ended(): Promise<number | null> {
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'exit');
    return this.child.exitCode;
  }
}

export interface WorkerOptions {
  readonly node?: string;
  readonly nodeArgs?: readonly string[];
  readonly library?: string;
  /** The user that it becomes once it has loaded its program. */
  readonly uid?: number;
  /** A command that runs the worker as its last arguments. */
  readonly under?: readonly string[];
}

const running = new Set<Worker>();

export async function startWorker(
  path: string,
  args: readonly (string | number)[],
  options: WorkerOptions = {},
): Promise<Worker> {
  const { node = process.execPath, nodeArgs = ['--no-warnings'], library = 'any', uid, under = [] } = options;
  const [file = node, ...more] = [
    ...under,
    node,
    ...nodeArgs,
    await workerFile(),
    library,
    path,
    ...args.map(String),
  ];
  const child = spawn(file, more, {
    stdio: ['pipe', 'pipe', 'pipe'],
    // It changes its user by itself: that user may not be able to read the clone and its libraries.
    ...(uid === undefined ? {} : { env: { ...process.env, HOLDFAST_WORKER_UID: `${uid}` } }),
  });
  const worker = new Worker(child);
  running.add(worker);
  child.on('exit', () => running.delete(worker));
  child.stdin?.on('error', () => {});
  return worker;
}

/** For `afterEach`: nothing a test started outlives it. */
export async function stopWorkers(): Promise<void> {
  for (const worker of [...running]) {
    worker.kill('SIGKILL');
    await worker.ended();
  }
}
