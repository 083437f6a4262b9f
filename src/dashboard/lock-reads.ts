import type { Core } from '../core.ts';
import { storedName, type Use } from '../use.ts';
import { viewLock } from '../view.ts';
import { RefusedError } from './answers.ts';
import type { ReadLock } from './scan.ts';

/** Viewers of one lock share a read for so long. */
const SHARED_MS = 1_000;
const LOCKS_MAX = 1_000;
/** How many locks are read at once for viewers. A store that is slow is not asked for ever more. */
const READING_MAX = 32;

/** Reads single locks, once for all viewers of a lock. */
export class LockReads {
  readonly #core: Core;
  readonly #onLock: (lock: ReadLock) => void;
  readonly #recent = new Map<string, { readonly atMs: number; readonly lock: Promise<ReadLock> }>();
  #reading = 0;

  constructor(core: Core, onLock: (lock: ReadLock) => void) {
    this.#core = core;
    this.#onLock = onLock;
  }

  /**
   * At most a second old, and the same object for everybody meanwhile. Rejects when the store fails,
   * and with `RefusedError` while too many other locks are read.
   */
  async recent(name: string, use: Use): Promise<ReadLock> {
    const key = storedName(use, name);
    const nowMs = this.#core.clock.monotonicMs();
    const known = this.#recent.get(key);
    if (known !== undefined && nowMs - known.atMs < SHARED_MS) return await known.lock;
    if (this.#reading >= READING_MAX)
      throw new RefusedError(503, 'busy', 'Too many locks are read at once.', { 'retry-after': '1' });
    this.#dropOld(nowMs);
    this.#reading += 1;
    const lock = this.now(name, use).finally(() => {
      this.#reading -= 1;
    });
    this.#recent.set(key, { atMs: nowMs, lock });
    lock.catch(() => this.#recent.delete(key));
    return await lock;
  }

  /** As the store has it now. */
  async now(name: string, use: Use): Promise<ReadLock> {
    const { clock, commands, store } = this.#core;
    const stored = storedName(use, name);
    const claims = await commands.run((signal) => store.read(stored, signal));
    const lock = { view: viewLock(stored, claims), readAtMs: clock.wallMs(), slot: null };
    this.#onLock(lock);
    return lock;
  }

  #dropOld(nowMs: number): void {
    for (const [key, { atMs }] of this.#recent) {
      if (nowMs - atMs < SHARED_MS && this.#recent.size < LOCKS_MAX) break;
      this.#recent.delete(key);
    }
  }
}
