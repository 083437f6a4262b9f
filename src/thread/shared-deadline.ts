import type { LossReason } from '../errors.ts';
import { Deadline } from '../hold/deadline.ts';
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
}

/** The same deadline in the thread, which writes every change of it to shared memory. */
export class PublishedDeadline extends Deadline {
  /** `null` until the thread has taken the hold on, and once the process has given it up. */
  slot: Slot | null = null;

  protected override move(): void {
    super.move();
    // The constructor of the base class calls this before there are own fields.
    this.slot?.setEnd(this.end);
  }
}
