import { emitKeypressEvents, type Key } from 'node:readline';
import type { ReadStream, WriteStream } from 'node:tty';
import { fitted } from '../cell.ts';
import { type Paint, painter, type Style } from '../text.ts';

/** The alternate screen; no cursor; no wrap, so that a line that is too wide cannot move the others. */
const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l\u001b[2J';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
/** The terminal shows all of a frame at once, where it knows this sequence. */
const [BEGIN_FRAME, END_FRAME] = ['\u001b[?2026h', '\u001b[?2026l'];

/** One line of the screen. The text must be printable; it is cut where the screen ends. */
export interface Line {
  readonly text: string;
  readonly style?: Style;
}

/** A whole terminal to draw on. However the process ends, the terminal is left as it was. */
export class Screen {
  readonly #input: ReadStream;
  readonly #output: WriteStream;
  readonly #paint: Paint;
  readonly #onExit = (): void => this.leave();
  readonly #onResize: () => void;
  readonly #onKey: (text: string | undefined, key: Key) => void;
  #shown: readonly string[] = [];
  #isEntered = false;

  constructor(
    input: ReadStream,
    output: WriteStream,
    onKey: (key: Key & { text: string }) => void,
    onResize: () => void,
  ) {
    this.#input = input;
    this.#output = output;
    this.#paint = painter(output);
    this.#onKey = (text, key) => onKey({ ...key, text: text ?? '' });
    this.#onResize = () => {
      // What the terminal shows after a change of its size is not known.
      this.#shown = [];
      onResize();
    };
    emitKeypressEvents(input);
  }

  get columns(): number {
    return this.#output.columns;
  }

  get rows(): number {
    return this.#output.rows;
  }

  enter(): void {
    if (this.#isEntered) return;
    this.#isEntered = true;
    this.#shown = [];
    this.#input.setRawMode(true);
    this.#input.on('keypress', this.#onKey).resume();
    this.#output.on('resize', this.#onResize);
    // Also after an error that nothing catches.
    process.on('exit', this.#onExit);
    this.#output.write(ENTER);
  }

  /** Writes only what has changed. Every line is as wide as the screen, so nothing is erased first. */
  draw(lines: readonly Line[]): void {
    if (!this.#isEntered) return;
    const next = Array.from({ length: this.rows }, (_, n) => {
      const { text = '', style } = lines[n] ?? {};
      const whole = fitted(text, this.columns);
      return style === undefined ? whole : this.#paint(style, whole);
    });
    const changed = next.flatMap((line, n) => (line === this.#shown[n] ? [] : [`\u001b[${n + 1};1H${line}`]));
    this.#shown = next;
    if (changed.length > 0) this.#output.write(BEGIN_FRAME + changed.join('') + END_FRAME);
  }

  leave(): void {
    if (!this.#isEntered) return;
    this.#isEntered = false;
    process.off('exit', this.#onExit);
    this.#output.off('resize', this.#onResize);
    this.#output.write(LEAVE);
    this.#input.off('keypress', this.#onKey).pause();
    this.#input.setRawMode(false);
  }
}
