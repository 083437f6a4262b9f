import type { Clock, Timer } from '../../../clock.ts';
import { type Indexed, UnorderedSet } from '../../../util/unordered-set.ts';

/** A node that leaves a command without a reply for this long may be dead. */
const SILENT_MS = 1_000;
/**
 * A node that has left so many commands without a reply for this long gets no more, because the
 * client keeps each of them. By default, their callers have given up by then.
 */
const STUCK_MS = 5_000;
const STUCK_MIN = 64;

/** A command that was sent and has no reply yet. */
interface PendingReply extends Indexed {
  readonly address: string;
  readonly slot: number;
  readonly sentMs: number;
  readonly reject: (error: Error) => void;
}

/** The commands without a reply. A node that is stopped or cut off does not reject them. */
export class PendingReplies {
  readonly #clock: Clock;
  readonly #onSilence: () => void;
  readonly #pending = new UnorderedSet<PendingReply>();
  /** The addresses of the nodes that get no more commands. */
  readonly #stuck = new Set<string>();
  #timer: Timer | null = null;

  constructor(clock: Clock, onSilence: () => void) {
    this.#clock = clock;
    this.#onSilence = onSilence;
  }

  /**
   * A command was sent. The result is to be called with its reply, and returns whether the caller
   * still waits for it: `failMoved` may have rejected the command.
   */
  add(address: string, slot: number, reject: (error: Error) => void): () => boolean {
    const reply = { address, slot, sentMs: this.#clock.monotonicMs(), reject };
    this.#pending.add(reply);
    this.#timer ??= this.#clock.startTimer(SILENT_MS, () => this.#check());
    return () => {
      this.#stuck.delete(address);
      return this.#pending.delete(reply);
    };
  }

  isStuck(address: string): boolean {
    return this.#stuck.has(address);
  }

  /**
   * Rejects the commands without a reply for a second whose slot another node serves now. Their
   * callers ask there.
   */
  failMoved(addressOf: (slot: number) => string | undefined): void {
    for (const reply of this.#olderThan(SILENT_MS)) {
      const { address, slot, reject } = reply;
      if (addressOf(slot) === address) continue;
      this.#pending.delete(reply);
      reject(new Error(`no answer from ${address}, and its slot is served by another node now`));
    }
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #olderThan(ms: number): PendingReply[] {
    const nowMs = this.#clock.monotonicMs();
    return this.#pending.all.filter(({ sentMs }) => nowMs - sentMs >= ms);
  }

  #check(): void {
    const old = this.#olderThan(STUCK_MS).map(({ address }) => address);
    this.#stuck.clear();
    for (const address of new Set(old)) {
      if (old.filter((each) => each === address).length >= STUCK_MIN) this.#stuck.add(address);
    }
    if (this.#olderThan(SILENT_MS).length > 0) this.#onSilence();
    const isIdle = this.#pending.all.length === 0;
    this.#timer = isIdle ? null : this.#clock.startTimer(SILENT_MS, () => this.#check());
  }
}
