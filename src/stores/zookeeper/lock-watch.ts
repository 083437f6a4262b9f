import { backoff, pause } from '../../hold/pause.ts';
import type { Watching } from '../waiters.ts';
import type { Parts } from './parts.ts';

const RETRY = { min: 250, max: 5_000 };

/** Watches every change of one lock, over reconnects and over sessions. */
export class LockWatch implements AsyncDisposable {
  readonly #parts: Parts;
  readonly #lock: string;
  readonly #wake: () => void;
  readonly #listening: { stop(): void };
  #watching: Watching | null = null;
  #isArming = false;
  #isDisposed = false;

  constructor(parts: Parts, name: string, wake: () => void) {
    this.#parts = parts;
    this.#lock = parts.tree.lock(name);
    this.#wake = wake;
    this.#listening = parts.sessions.listen(() => void this.#again());
  }

  async arm(): Promise<void> {
    const session = await this.#parts.sessions.ready();
    this.#watching?.cancel();
    this.#watching = session.hub.children(this.#lock, this.#wake);
    await this.#watching.armed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isDisposed = true;
    this.#listening.stop();
    this.#watching?.cancel();
  }

  /** What was watched went with the connection. Whatever happened meanwhile is told once. */
  async #again(): Promise<void> {
    if (this.#isArming) return;
    this.#isArming = true;
    const { clock, sessions } = this.#parts;
    // Who has dropped an observer half way never ends its watch.
    for (let attempt = 0; !this.#isDisposed && !sessions.isClosed; attempt += 1) {
      try {
        await this.arm();
        break;
      } catch {
        await pause(clock, backoff(clock, attempt, RETRY));
      }
    }
    this.#isArming = false;
    if (this.#isDisposed) this.#watching?.cancel();
    else this.#wake();
  }
}
