import type { Clock } from '../../clock.ts';

/** What the script said of the hold in front: when it ends by itself (-1: never), and the marks of the claim. */
export interface Refusal {
  readonly firstEndsMs: number;
  readonly marks: string;
}

interface Entry {
  isGranted: boolean;
  refusal: Refusal | null;
  refusedAtMs: number;
}

/** The core asks again as soon as it listens. An answer that is older than this was meant for something else. */
const STANDS_MS = 100;

/**
 * Claims between their question and the first time that they ask again. Whoever asked while this process was listening is told of a grant by a message; as long
 * as none has come, asking a second time, only because listening has begun in between, would be told the same. So that question is answered
 * here, which halves what a waiter costs. A message may come before the answer to the question.
 */
export class Entering {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The claim is asked for now, and we listen. */
  begin(id: string): void {
    this.#entries.set(id, { isGranted: false, refusal: null, refusedAtMs: 0 });
  }

  /** A message says that it was granted. True when it is one of these. */
  onGranted(id: string): boolean {
    const entry = this.#entries.get(id);
    if (entry !== undefined) entry.isGranted = true;
    return entry !== undefined;
  }

  onRefused(id: string, refusal: Refusal): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    entry.refusal = refusal;
    entry.refusedAtMs = this.#clock.monotonicMs();
  }

  /** The refusal that still stands, once; `null` when it is better to ask. */
  take(id: string): Refusal | null {
    const entry = this.#entries.get(id);
    if (entry === undefined) return null;
    this.#entries.delete(id);
    const { isGranted, refusal, refusedAtMs } = entry;
    const sinceMs = this.#clock.monotonicMs() - refusedAtMs;
    // Another program's release sends no message.
    if (isGranted || refusal === null || refusal.marks.includes('f') || sinceMs > STANDS_MS) return null;
    const { firstEndsMs, marks } = refusal;
    return { firstEndsMs: firstEndsMs < 0 ? firstEndsMs : Math.max(firstEndsMs - sinceMs, 0), marks };
  }

  drop(id: string): void {
    if (this.#entries.size > 0) this.#entries.delete(id);
  }

  /** A message may have been missed. */
  clear(): void {
    this.#entries.clear();
  }
}
