import { type Clock, FOREVER_MS } from '../clock.ts';
import type { LossReason } from '../errors.ts';
import { elapsedMs, type Instant, trustedMs } from '../store/validity.ts';

/** A command that sets the TTL of the claim, counted from when it was sent. */
export interface TtlCommand {
  readonly sent: Instant;
  readonly ttlMs: number;
}

/** Until when a claim can be trusted, by the requests that were sent and the answers to them. */
export class Deadline {
  /** The last confirmed command, with the time that the store has granted. */
  confirmed: TtlCommand;
  /** The shortest TTL of earlier commands of unknown outcome: the store may yet execute them. */
  leastMs = FOREVER_MS;
  /** When the trust ends by each clock. The earlier of the two counts. */
  end!: Instant;
  protected readonly clock: Clock;
  /** False on a store without TTLs, where commands cannot change them. */
  readonly #hasTtl: boolean;
  /** Commands sent after the last confirmed one: each may have set the TTL, or may yet do so. */
  #unanswered: readonly TtlCommand[] = [];

  constructor(clock: Clock, sent: Instant, validForMs: number, hasTtl: boolean) {
    this.clock = clock;
    this.#hasTtl = hasTtl;
    this.confirmed = { sent, ttlMs: validForMs };
    this.move();
  }

  /** Not positive once the claim cannot be trusted any more. */
  remainingMs(): number {
    const { monotonicMs, wallMs } = this.end;
    return Math.min(monotonicMs - this.clock.monotonicMs(), wallMs - this.clock.wallMs());
  }

  /** What is left of the time that the store has granted, without the margin for clocks. */
  grantedMs(): number {
    const { sent, ttlMs } = this.confirmed;
    return Math.min(ttlMs, this.leastMs) - elapsedMs(this.clock, sent);
  }

  /** Why the hold is over, where that is known before the core is told. */
  lossReason(): LossReason | null {
    return null;
  }

  /** A command that sets the TTL is pending from now on. */
  onSent(sent: Instant, ttlMs: number): TtlCommand {
    const command = { sent, ttlMs };
    if (this.#hasTtl) this.#unanswered = [...this.#unanswered, command];
    this.move();
    return command;
  }

  onRefused(command: TtlCommand): void {
    this.#unanswered = this.#unanswered.filter((each) => each !== command);
    this.move();
  }

  /** The store may yet execute an earlier command with this TTL, whose answer will never be known. */
  limitTo(ttlMs: number): void {
    if (this.#hasTtl) this.leastMs = Math.min(this.leastMs, ttlMs);
    this.move();
  }

  /** The store has confirmed the command. False when a later one was confirmed before. */
  confirm(command: TtlCommand, validForMs: number): boolean {
    const { sent } = command;
    const isLast = sent.monotonicMs >= this.confirmed.sent.monotonicMs;
    this.#unanswered = this.#unanswered.filter((each) => each !== command);
    if (isLast) {
      this.confirmed = { sent, ttlMs: validForMs };
      const earlier = this.#unanswered.filter((each) => each.sent.monotonicMs <= sent.monotonicMs);
      this.#unanswered = this.#unanswered.filter((each) => !earlier.includes(each));
      this.leastMs = Math.min(this.leastMs, ...earlier.map(({ ttlMs }) => ttlMs));
    }
    this.move();
    return isLast;
  }

  protected move(): void {
    let monotonicMs = FOREVER_MS;
    let wallMs = FOREVER_MS;
    for (const { sent, ttlMs } of [this.confirmed, ...this.#unanswered]) {
      const forMs = trustedMs(Math.min(ttlMs, this.leastMs));
      monotonicMs = Math.min(monotonicMs, sent.monotonicMs + forMs);
      wallMs = Math.min(wallMs, sent.wallMs + forMs);
    }
    this.end = { monotonicMs, wallMs };
  }
}
