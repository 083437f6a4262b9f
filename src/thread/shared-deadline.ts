import type { LossReason } from '../errors.ts';
import { Deadline, type Unanswered } from '../hold/deadline.ts';
import type { Instant } from '../store/validity.ts';
import type { Slot } from './shared-slots.ts';

/**
 * The deadline of a hold that the thread keeps alive, as the process sees it. It is read from
 * shared memory, so that it is right in the first statement after the event loop was blocked.
 */
export class SharedDeadline extends Deadline {
  slot: Slot | null = null;

  override remainingMs(): number {
    return this.slot === null ? super.remainingMs() : this.slot.remainingMs(this.clock);
  }

  override lossReason(): LossReason | null {
    return this.slot?.lossReason() ?? null;
  }

  /** The thread has received the answer and written the deadline. */
  override confirm(): boolean {
    return true;
  }
}

/** The same deadline in the thread, which writes every change of it to shared memory. */
export class PublishedDeadline extends Deadline {
  /** `null` once the process has given the hold up. */
  slot: Slot | null = null;

  override onSent(sent: Instant, ttlMs: number): Unanswered {
    const command = super.onSent(sent, ttlMs);
    this.#publish();
    return command;
  }

  override onAnswered(command: Unanswered): void {
    super.onAnswered(command);
    // After a confirmation by the same answer: until then the older, longer time would show.
    queueMicrotask(() => this.#publish());
  }

  override limitTo(ttlMs: number): void {
    super.limitTo(ttlMs);
    this.#publish();
  }

  override confirm(sent: Instant, validForMs: number): boolean {
    const isNewer = super.confirm(sent, validForMs);
    this.#publish();
    return isNewer;
  }

  #publish(): void {
    this.slot?.setEnd(this.end());
  }
}
