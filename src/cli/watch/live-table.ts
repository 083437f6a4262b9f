import { constants } from 'node:os';
import type { Locks } from '../../locks.ts';
import { outcomeText } from '../evict.ts';
import { describeFailure, EXIT } from '../exit-code.ts';
import { presentable } from '../report-error.ts';
import { frame } from './frame.ts';
import { type Action, type Eviction, type KeyPress, Model } from './model.ts';
import { type Scanned, Scanner } from './scanner.ts';
import { Screen } from './screen.ts';

/** Ages and leases are updated between two scans. */
const REDRAW_MS = 1_000;

/** The live table: connects the scans and the keys with the screen. */
export class LiveTable {
  readonly #locks: Locks;
  readonly #prefix: string;
  readonly #model = new Model();
  readonly #scanner: Scanner;
  readonly #screen: Screen;
  #end: (code: number) => void = () => {};

  constructor(locks: Locks, scanned: Scanned) {
    this.#locks = locks;
    this.#prefix = scanned.prefix;
    this.#scanner = new Scanner(locks, scanned, {
      onScan: (scan) => {
        this.#model.scan = scan;
        this.#model.outage = null;
        this.#draw();
      },
      onOutage: (error) => {
        this.#model.outage = oneLine(error);
        this.#draw();
      },
    });
    this.#screen = new Screen(
      process.stdin,
      process.stdout,
      (key) => this.#onKey(key),
      () => this.#draw(),
    );
  }

  /** Resolves to the exit code: when a key ends it, or the signal has come. */
  async run(signalled: Promise<number>): Promise<number> {
    const ended = new Promise<number>((resolve) => {
      this.#end = resolve;
    });
    const ticking = setInterval(() => this.#draw(), REDRAW_MS);
    const onStop = (): void => this.#suspend();
    process.on('SIGTSTP', onStop);
    this.#screen.enter();
    try {
      this.#draw();
      return await Promise.race([ended, signalled, this.#scanner.run().then(() => EXIT.ok)]);
    } finally {
      clearInterval(ticking);
      process.off('SIGTSTP', onStop);
      this.#scanner.stop();
      this.#screen.leave();
    }
  }

  #draw(): void {
    this.#screen.draw(frame(this.#model, this.#prefix, this.#screen, performance.now()));
  }

  #onKey(key: KeyPress): void {
    const action = this.#model.press(key, performance.now());
    if (action !== null) this.#perform(action);
    this.#draw();
  }

  #perform(action: Action): void {
    if (action.kind === 'quit') this.#end(EXIT.ok);
    else if (action.kind === 'interrupt') this.#end(128 + constants.signals.SIGINT);
    else if (action.kind === 'suspend') this.#suspend();
    else void this.#evict(action.eviction);
  }

  /** Gives the terminal back to the shell until the process is continued. */
  #suspend(): void {
    this.#screen.leave();
    process.once('SIGCONT', () => {
      this.#screen.enter();
      this.#draw();
    });
    // The whole job, as Ctrl-Z does outside of raw mode.
    process.kill(0, 'SIGSTOP');
  }

  async #evict({ name, use, claim }: Eviction): Promise<void> {
    try {
      const evicted = await this.#locks.evict(name, { id: claim.id }, { use });
      this.#model.message = outcomeText(name, claim.id, evicted);
      this.#scanner.hurry();
    } catch (error) {
      this.#model.message = oneLine(error);
    }
    this.#draw();
  }
}

/** A message for the screen, without passwords and control characters. */
function oneLine(error: unknown): string {
  return presentable(describeFailure(error)).replace(/\s*\n\s*/g, ' ');
}
