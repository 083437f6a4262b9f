import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, rmSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { afterAll } from 'vitest';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const folder = `${root}.tmp/cli-${process.pid}`;
let built: Promise<string> | null = null;

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The command line as it is published, compiled once for each test file. Inside the project, so that it finds the libraries. */
export async function holdfastFile(): Promise<string> {
  built ??= (async () => {
    mkdirSync(folder, { recursive: true });
    await build({
      entryPoints: [`${root}src/cli/main.ts`, `${root}src/cli/guard.ts`],
      outdir: folder,
      bundle: true,
      splitting: true,
      platform: 'node',
      format: 'esm',
      packages: 'external',
      logLevel: 'error',
    });
    return `${folder}/main.js`;
  })();
  return await built;
}

export interface Result {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class Holdfast {
  readonly child: ChildProcess;
  stdout = '';
  stderr = '';

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
    });
  }

  async result(): Promise<Result> {
    if (this.child.exitCode === null && this.child.signalCode === null) await once(this.child, 'close');
    return { code: this.child.exitCode, stdout: this.stdout, stderr: this.stderr };
  }

  /** Waits until this has been printed. */
  async printed(text: string, limitMs = 30_000): Promise<void> {
    const giveUpAt = performance.now() + limitMs;
    while (!this.stdout.includes(text)) {
      if (performance.now() > giveUpAt)
        throw new Error(`"${text}" was not printed; got "${this.stdout}" and "${this.stderr}"`);
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }
}

const running = new Set<Holdfast>();

export async function start(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Holdfast> {
  const child = spawn(process.execPath, [await holdfastFile(), ...args], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...env },
  });
  child.stdin?.on('error', () => {});
  const holdfast = new Holdfast(child);
  running.add(holdfast);
  child.on('exit', () => running.delete(holdfast));
  return holdfast;
}

export async function holdfast(args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<Result> {
  return await (await start(args, env)).result();
}

/** For `afterEach`: the guards end what is left. */
export async function stopAll(): Promise<void> {
  for (const each of [...running]) {
    each.child.kill('SIGCONT');
    each.child.kill('SIGKILL');
    await each.result();
  }
}
