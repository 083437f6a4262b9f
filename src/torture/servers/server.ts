import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findProgram, type Program } from './find.ts';
import { freePorts } from './ports.ts';

/** How to run one kind of server. A new store adds one of these and calls `startServer`. */
export interface Recipe extends Program {
  /** An environment variable that names a server to use instead of starting one. */
  readonly urlFrom: string;
  /** How many ports it needs; 1 unless set. */
  readonly ports?: number;
  /** What must exist before the first start: a data folder, a certificate. */
  prepare?(instance: ServerInstance): Promise<void> | void;
  args(instance: ServerInstance): readonly string[];
  env?(instance: ServerInstance): NodeJS.ProcessEnv;
  /** Some servers refuse to run as root. */
  readonly user?: { readonly uid: number; readonly gid: number } | undefined;
  /** The signal that ends it at once; SIGTERM unless set. PostgreSQL would wait for its clients. */
  readonly stopSignal?: NodeJS.Signals;
  /** Throws until the server answers. */
  ready(instance: ServerInstance): Promise<void>;
  url(instance: ServerInstance): string;
}

/** One server of a recipe: its program, its folder and its ports. */
export interface ServerInstance {
  readonly program: string;
  readonly dir: string;
  readonly ports: readonly number[];
  readonly port: number;
}

export interface Server extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly dir: string;
  /** `null` for a server named by the environment, which is not ours to stop. */
  readonly pid: number | null;
  /** Sends a signal: SIGKILL for a crash, SIGSTOP and SIGCONT for a pause. */
  kill(signal: NodeJS.Signals): void;
  /** Resolves when the process has ended. */
  exited(): Promise<void>;
  /** Starts it again, on the same ports and in the same folder. */
  start(): Promise<void>;
  stop(): Promise<void>;
}

const START_MS = 30_000;
/** A server that cannot have its port has ended by then. */
const OWN_MS = 50;
/** One attempt to talk to a server that starts. */
const READY_MS = 5_000;
const STOP_MS = 5_000;
const ATTEMPTS = 3;

/**
 * The server that the environment names, else one of our own on free loopback ports in a temporary
 * folder.
 */
export async function startServer(recipe: Recipe): Promise<Server> {
  const named = process.env[recipe.urlFrom];
  if (named !== undefined && named !== '') return namedServer(named);
  return await startOwnServer(recipe);
}

/** Starts a private server, which the caller may kill, pause and reconfigure. */
export async function startOwnServer(recipe: Recipe): Promise<Server> {
  const program = findProgram(recipe);
  for (let attempt = 1; ; attempt += 1) {
    const ports = await freePorts(recipe.ports ?? 1);
    const dir = mkdtempSync(join(tmpdir(), `holdfast-${recipe.binary}-`));
    const server = new OwnServer(recipe, { program, dir, ports, port: ports[0] ?? 0 });
    try {
      await recipe.prepare?.(server.instance);
      await server.start();
      return server;
    } catch (error) {
      await server.stop();
      // Another process may have taken a port before the server started.
      if (attempt === ATTEMPTS) throw error;
    }
  }
}

function namedServer(url: string): Server {
  const refuse = (): never => {
    throw new Error('This server was named by the environment: it is not ours to stop');
  };
  return {
    url,
    port: Number(new URL(url).port),
    dir: '',
    pid: null,
    kill: refuse,
    exited: async () => refuse(),
    start: async () => refuse(),
    stop: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

/** One listener for all servers: a campaign has more of them than an emitter may have listeners. */
const running = new Set<OwnServer>();
process.on('exit', () => {
  for (const server of running) server.killAtExit();
});

class OwnServer implements Server {
  readonly instance: ServerInstance;
  readonly #recipe: Recipe;
  #process: ChildProcess | null = null;
  #exit: Promise<void> = Promise.resolve();

  constructor(recipe: Recipe, instance: ServerInstance) {
    this.#recipe = recipe;
    this.instance = instance;
    running.add(this);
  }

  get url(): string {
    return this.#recipe.url(this.instance);
  }

  get port(): number {
    return this.instance.port;
  }

  get dir(): string {
    return this.instance.dir;
  }

  get pid(): number | null {
    return this.#process?.pid ?? null;
  }

  kill(signal: NodeJS.Signals): void {
    this.#process?.kill(signal);
  }

  killAtExit(): void {
    this.kill(this.#recipe.stopSignal ?? 'SIGKILL');
  }

  exited(): Promise<void> {
    return this.#exit;
  }

  async start(): Promise<void> {
    const { program, dir } = this.instance;
    // Straight into the file: output through this process could arrive after the folder is removed.
    const log = openSync(join(dir, 'output.log'), 'a');
    const child = spawn(program, [...this.#recipe.args(this.instance)], {
      cwd: dir,
      env: { ...process.env, ...this.#recipe.env?.(this.instance) },
      stdio: ['ignore', log, log],
      ...this.#recipe.user,
    });
    closeSync(log);
    this.#process = child;
    this.#exit = new Promise((resolve) => {
      child.once('error', () => resolve());
      child.once('exit', () => resolve());
    });
    await this.#becomeReady(child);
  }

  async #becomeReady(child: ChildProcess): Promise<void> {
    let last: unknown;
    for (const until = Date.now() + START_MS; Date.now() < until; ) {
      if (child.exitCode !== null || child.signalCode !== null) break;
      try {
        // A connection that is accepted and never answered must not hold up the start.
        const tooLong = sleep(READY_MS, undefined, { ref: false }).then(() =>
          Promise.reject(new Error('no answer')),
        );
        await Promise.race([this.#recipe.ready(this.instance), tooLong]);
        // Another server may have taken the port first, and answered in place of this one.
        await sleep(OWN_MS);
        if (child.exitCode === null && child.signalCode === null) return;
      } catch (error) {
        last = error;
        await sleep(25);
      }
    }
    throw new Error(`${this.#recipe.title} did not start (${String(last)}). Its output:\n${this.#output()}`);
  }

  #output(): string {
    try {
      return readFileSync(join(this.dir, 'output.log'), 'utf8').slice(-2_000);
    } catch {
      return '(nothing)';
    }
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (child !== null && child.exitCode === null && child.signalCode === null) {
      // A paused process does not get SIGTERM.
      child.kill('SIGCONT');
      child.kill(this.#recipe.stopSignal ?? 'SIGTERM');
      const hard = setTimeout(() => child.kill('SIGKILL'), STOP_MS);
      await this.#exit;
      clearTimeout(hard);
    }
    running.delete(this);
    rmSync(this.dir, { recursive: true, force: true });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
