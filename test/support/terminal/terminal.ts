import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { findProgram } from '../../../src/torture/servers/find.ts';
import { eventually } from '../waiting/eventually.ts';

const execute = promisify(execFile);

const SETTINGS = ['set -g status off', 'set -g escape-time 0', 'set -g history-limit 0', ''].join('\n');

export interface TerminalOptions {
  /** The command that runs in the terminal. */
  readonly shell: readonly string[];
  readonly columns?: number;
  readonly rows?: number;
  readonly env?: NodeJS.ProcessEnv;
}

/** A real terminal: a tmux of its own, with one window. */
export class Terminal implements AsyncDisposable {
  readonly #tmux: string;
  readonly #folder: string;

  private constructor(tmux: string, folder: string) {
    this.#tmux = tmux;
    this.#folder = folder;
  }

  static async start({ shell, columns = 80, rows = 24, env = {} }: TerminalOptions): Promise<Terminal> {
    const tmux = findProgram({ title: 'tmux', binary: 'tmux', packages: ['tmux'] });
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-tmux-'));
    writeFileSync(join(folder, 'tmux.conf'), SETTINGS);
    const terminal = new Terminal(tmux, folder);
    const size = ['-x', `${columns}`, '-y', `${rows}`];
    await terminal.#run(['-f', join(folder, 'tmux.conf'), 'new-session', '-d', ...size, ...shell], {
      ...process.env,
      LC_ALL: 'C.UTF-8',
      ...env,
    });
    // Records the raw output, control sequences included.
    await terminal.#run(['pipe-pane', '-O', `exec cat > '${terminal.#log}'`]);
    return terminal;
  }

  get #log(): string {
    return join(this.#folder, 'output');
  }

  async #run(args: readonly string[], env: NodeJS.ProcessEnv = process.env): Promise<string> {
    const all = ['-u', '-S', join(this.#folder, 'socket'), ...args];
    return (await execute(this.#tmux, all, { env })).stdout;
  }

  /** What a person would see, without the spaces at the end of each line. */
  async screen(): Promise<string> {
    return await this.#run(['capture-pane', '-p']);
  }

  /** What was written to the terminal, control sequences included, once this text is a part of it. */
  async written(text: string): Promise<string> {
    let written = '';
    await eventually('the output is recorded', () => {
      // The program that records it may not have begun.
      written = existsSync(this.#log) ? readFileSync(this.#log, 'utf8') : '';
      return written.includes(text);
    });
    return written;
  }

  /** Types this text, without Enter. */
  async type(text: string): Promise<void> {
    await this.#run(['send-keys', '-l', '--', text]);
  }

  /** Presses these keys, by the names that tmux has for them: `Enter`, `Escape`, `Up`, `C-c`. */
  async press(...keys: readonly string[]): Promise<void> {
    await this.#run(['send-keys', ...keys]);
  }

  async enter(line: string): Promise<void> {
    await this.type(line);
    await this.press('Enter');
  }

  /** Empties the screen first, so that nothing on it is taken for the output of this line. */
  async enterAnew(line: string): Promise<void> {
    await this.#run(['send-keys', '-R']);
    await this.enter(line);
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#run(['resize-window', '-x', `${columns}`, '-y', `${rows}`]);
  }

  /** Waits until the screen matches all of these, and returns it. A part of it may be drawn earlier. */
  async shows(...expected: readonly (string | RegExp)[]): Promise<string> {
    return await this.#until(expected.join(' and '), (screen) =>
      expected.every((each) => isIn(screen, each)),
    );
  }

  /** Waits until the screen no longer matches, and gives it. */
  async hides(unwanted: string | RegExp): Promise<string> {
    return await this.#until(`no ${unwanted}`, (screen) => !isIn(screen, unwanted));
  }

  async #until(what: string, isDone: (screen: string) => boolean): Promise<string> {
    let screen = '';
    try {
      await eventually(what, async () => {
        screen = await this.screen();
        return isDone(screen);
      });
    } catch (cause) {
      throw new Error(`${(cause as Error).message}; the screen was:\n${screen}`, { cause });
    }
    return screen;
  }

  /** The terminal modes that a program may change and must restore. */
  async modes(): Promise<{ alternateScreen: boolean; cursor: boolean; wrap: boolean }> {
    const text = await this.#run(['display-message', '-p', '#{alternate_on} #{cursor_flag} #{wrap_flag}']);
    const [alternateScreen, cursor, wrap] = text
      .trim()
      .split(' ')
      .map((flag) => flag === '1');
    return { alternateScreen: alternateScreen ?? false, cursor: cursor ?? false, wrap: wrap ?? false };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // The tmux server has ended already when its shell has.
    await this.#run(['kill-server']).catch(() => {});
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

const isIn = (screen: string, text: string | RegExp): boolean =>
  typeof text === 'string' ? screen.includes(text) : text.test(screen);
