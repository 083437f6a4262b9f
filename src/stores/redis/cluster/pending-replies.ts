import type { Clock, Timer } from '../../../clock.ts';
import { type Indexed, UnorderedSet } from '../../../util/unordered-set.ts';

/** A node that has not replied for this long may be dead, and another node may serve its slots. */
const SILENT_MS = 1_000;
/**
 * A node that has not replied for this long gets no more commands while this many wait for it: the
 * client keeps each of them. By default, their callers have given up by then.
 */
const STUCK_MS = 5_000;
const STUCK_MIN = 64;

/** A command that was sent and has no reply yet. */
interface PendingReply extends Indexed {
  readonly slot: number;
  readonly reject: (error: Error) => void;
}

interface NodeReplies {
  readonly pending: UnorderedSet<PendingReply>;
  /** When the node last replied, or when the first of these commands was sent. */
  heardMs: number;
}

/**
 * The commands at each node that have no reply yet. A node that is stopped or cut off does not
 * reject them: it stays silent.
 */
export class PendingReplies {
  readonly #clock: Clock;
  readonly #onSilence: () => void;
  readonly #byAddress = new Map<string, NodeReplies>();
  #timer: Timer | null = null;

  constructor(clock: Clock, onSilence: () => void) {
    this.#clock = clock;
    this.#onSilence = onSilence;
  }

  /**
   * A command was sent. Call the result when its reply is there: it returns whether the caller
   * still waits for it, because `failMoved` may have rejected the command.
   */
  add(address: string, slot: number, reject: (error: Error) => void): () => boolean {
    const node = this.#nodeAt(address);
    const { pending } = node;
    if (pending.all.length === 0) node.heardMs = this.#clock.monotonicMs();
    const reply = { slot, reject };
    pending.add(reply);
    this.#timer ??= this.#clock.startTimer(SILENT_MS, () => this.#check());
    return () => {
      const isPending = pending.delete(reply);
      // The time of the last reply matters only while more commands are pending.
      if (isPending && pending.all.length > 0) node.heardMs = this.#clock.monotonicMs();
      return isPending;
    };
  }

  isStuck(address: string): boolean {
    const node = this.#byAddress.get(address);
    if (node === undefined || node.pending.all.length < STUCK_MIN) return false;
    return this.#clock.monotonicMs() - node.heardMs >= STUCK_MS;
  }

  /**
   * Rejects the commands at silent nodes whose slots another node serves now. The caller then asks
   * there.
   */
  failMoved(addressOf: (slot: number) => string | undefined): void {
    for (const [address, { pending }] of this.#silent()) {
      for (const reply of [...pending.all]) {
        if (addressOf(reply.slot) === address) continue;
        pending.delete(reply);
        reply.reject(new Error(`no answer from ${address}, and its slot is served by another node now`));
      }
    }
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#byAddress.clear();
  }

  #nodeAt(address: string): NodeReplies {
    let node = this.#byAddress.get(address);
    if (node === undefined) {
      node = { pending: new UnorderedSet(), heardMs: 0 };
      this.#byAddress.set(address, node);
    }
    return node;
  }

  #silent(): Array<[string, NodeReplies]> {
    const nowMs = this.#clock.monotonicMs();
    return [...this.#byAddress].filter(
      ([, { pending, heardMs }]) => pending.all.length > 0 && nowMs - heardMs >= SILENT_MS,
    );
  }

  #check(): void {
    this.#timer = null;
    if ([...this.#byAddress.values()].every(({ pending }) => pending.all.length === 0)) return;
    if (this.#silent().length > 0) this.#onSilence();
    this.#timer = this.#clock.startTimer(SILENT_MS, () => this.#check());
  }
}
