import type { Clock } from '../clock.ts';

/** More messages than this are not kept for a viewer: once it reads again, it gets the whole list instead. */
const QUEUE_MAX = 16;
/** A viewer that reads nothing for so long, although there are messages, is dropped. */
const STALLED_MS = 30_000;

interface ViewerOptions {
  /** The whole list as messages. */
  readonly snapshot: () => readonly Uint8Array[];
  readonly onEnd: () => void;
}

/**
 * One open event stream. Messages are shared with the other viewers. The queue has a bound: a slow
 * viewer skips messages and gets the whole list again.
 */
export class Viewer {
  readonly body: ReadableStream<Uint8Array>;
  readonly #clock: Clock;
  readonly #options: ViewerOptions;
  #controller: ReadableStreamDefaultController<Uint8Array> | null = null;
  /** What is left of the whole list. The messages are shared with other viewers. */
  #list: readonly Uint8Array[] = [];
  /** What has happened since. */
  #queue: Uint8Array[] = [];
  /** The list is sent anew before any further message. */
  #isBehind = false;
  #isEnded = false;
  #onMessage: (() => void) | null = null;
  /** Since when messages have been waiting for the viewer to read; `null` while none is. */
  #unreadSinceMs: number | null = null;

  constructor(clock: Clock, options: ViewerOptions) {
    this.#clock = clock;
    this.#options = options;
    this.body = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.#controller = controller;
        },
        pull: () => this.#pull(),
        cancel: () => this.end(),
      },
      // Nothing is taken from the queue before the viewer reads: the queue has the bound.
      { highWaterMark: 0 },
    );
  }

  push(message: Uint8Array): void {
    if (this.#isEnded || this.#dropIfStalled()) return;
    if (this.#isBehind) return;
    if (this.#queue.length >= QUEUE_MAX) this.restart();
    else this.#queue.push(message);
    this.#wake();
  }

  /** The viewer gets the whole list, as it is when the viewer reads next. */
  restart(): void {
    if (this.#isEnded) return;
    this.#list = [];
    this.#queue = [];
    this.#isBehind = true;
    this.#wake();
  }

  end(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#list = [];
    this.#queue = [];
    this.#onMessage?.();
    try {
      this.#controller?.close();
    } catch {
      // The reader has cancelled the stream already.
    }
    this.#options.onEnd();
  }

  #wake(): void {
    this.#unreadSinceMs ??= this.#clock.monotonicMs();
    this.#onMessage?.();
  }

  #dropIfStalled(): boolean {
    const sinceMs = this.#unreadSinceMs;
    if (sinceMs === null || this.#clock.monotonicMs() - sinceMs < STALLED_MS) return false;
    this.end();
    return true;
  }

  /** Called when the viewer reads and has nothing to read. */
  async #pull(): Promise<void> {
    for (;;) {
      if (this.#isEnded) return;
      const next = this.#next();
      if (next !== undefined) {
        const isMore = this.#list.length + this.#queue.length > 0;
        this.#unreadSinceMs = isMore ? this.#clock.monotonicMs() : null;
        this.#controller?.enqueue(next);
        return;
      }
      this.#unreadSinceMs = null;
      await new Promise<void>((resolve) => {
        this.#onMessage = resolve;
      });
      this.#onMessage = null;
    }
  }

  #next(): Uint8Array | undefined {
    if (this.#isBehind) {
      this.#isBehind = false;
      this.#list = this.#options.snapshot();
    }
    const [part] = this.#list;
    if (part === undefined) return this.#queue.shift();
    this.#list = this.#list.slice(1);
    return part;
  }
}
