import type { Clock } from '../clock.ts';
import type { LossReason } from '../errors.ts';
import type { Instant } from '../store/validity.ts';

/**
 * Memory that the process and its renewal thread share: one slot for each hold. The process writes
 * a new hold into a slot, and the thread takes the hold on when it next looks. From then on only
 * the thread writes to the slot, until it has dropped the hold. A hold that is given up before the
 * thread has looked costs no message.
 */

const SLOTS_IN_PAGE = 256;

/** The fields of a slot. Times are whole microseconds by the clock that threads share. */
const STATE = 0;
const MONOTONIC_END = 1;
const WALL_END = 2;
const TEXT_BYTES = 3;
const FIELDS = 4;
const FIELDS_BYTES = SLOTS_IN_PAGE * FIELDS * BigInt64Array.BYTES_PER_ELEMENT;

/** Room for the longest name and owner, in JSON. */
const TEXT_BYTES_MAX = 2_048;
const PAGE_BYTES = FIELDS_BYTES + SLOTS_IN_PAGE * TEXT_BYTES_MAX;

/** `NEW`: the thread has not seen it yet. `KEPT`: the thread keeps it alive. */
const FREE = 0n;
const NEW = 1n;
const KEPT = 2n;
/** A lost hold has the state 3 + the position of the reason. */
const LOST = 3;
const REASONS: readonly LossReason[] = ['expired', 'taken', 'session', 'closed', 'released'];

const toMicroseconds = (ms: number): bigint => BigInt(Math.floor(ms * 1_000));
const toMs = (microseconds: bigint): number => Number(microseconds) / 1_000;

/** Until when one hold is trusted, why it is lost, and what the thread has to know of it. */
export class Slot {
  readonly #fields: BigInt64Array;
  readonly #texts: Buffer;
  readonly #at: number;
  readonly #textAt: number;

  constructor(index: number, fields: BigInt64Array, texts: Buffer) {
    this.#fields = fields;
    this.#texts = texts;
    this.#at = index * FIELDS;
    this.#textAt = index * TEXT_BYTES_MAX;
  }

  /** Offers a hold to the thread, with a description of it. */
  offer(end: Instant, text: string): void {
    const bytes = this.#texts.write(text, this.#textAt, TEXT_BYTES_MAX, 'utf8');
    if (bytes === TEXT_BYTES_MAX) throw new RangeError('The description of a hold is too long');
    this.setEnd(end);
    this.#store(TEXT_BYTES, BigInt(bytes));
    this.#store(STATE, NEW);
  }

  /** Called by the process. False when the thread keeps the hold and must be sent a message. */
  takeBack(): boolean {
    return Atomics.compareExchange(this.#fields, this.#at + STATE, NEW, FREE) === NEW;
  }

  /** Called by the thread. The description of a hold that it has not seen yet; else `null`. */
  accept(): string | null {
    if (this.#load(STATE) !== NEW) return null;
    // First: from here on the process leaves the slot alone.
    if (Atomics.compareExchange(this.#fields, this.#at + STATE, NEW, KEPT) !== NEW) return null;
    const end = this.#textAt + Number(this.#load(TEXT_BYTES));
    return this.#texts.toString('utf8', this.#textAt, end);
  }

  /** The hold is over when either clock has passed its end. */
  setEnd({ monotonicMs, wallMs }: Instant): void {
    this.#store(MONOTONIC_END, toMicroseconds(monotonicMs));
    this.#store(WALL_END, toMicroseconds(wallMs));
  }

  remainingMs(clock: Clock): number {
    if (this.lossReason() !== null) return 0;
    const monotonicMs = toMs(this.#load(MONOTONIC_END)) - clock.monotonicMs();
    return Math.min(monotonicMs, toMs(this.#load(WALL_END)) - clock.wallMs());
  }

  setLost(how: LossReason): void {
    this.#store(STATE, BigInt(LOST + REASONS.indexOf(how)));
  }

  lossReason(): LossReason | null {
    return REASONS[Number(this.#load(STATE)) - LOST] ?? null;
  }

  setFree(): void {
    this.#store(STATE, FREE);
  }

  get isFree(): boolean {
    return this.#load(STATE) === FREE;
  }

  #load(field: number): bigint {
    return Atomics.load(this.#fields, this.#at + field);
  }

  #store(field: number, value: bigint): void {
    Atomics.store(this.#fields, this.#at + field, value);
  }
}

/** The slots of one page. */
export function slotsOf(buffer: SharedArrayBuffer): Slot[] {
  const fields = new BigInt64Array(buffer, 0, SLOTS_IN_PAGE * FIELDS);
  const texts = Buffer.from(buffer, FIELDS_BYTES);
  return Array.from({ length: SLOTS_IN_PAGE }, (_, index) => new Slot(index, fields, texts));
}

/** The slots, as the process gives them out. The thread is sent each page before its first slot. */
export class SlotPool {
  readonly #sendPage: (buffer: SharedArrayBuffer) => void;
  readonly #free: Slot[] = [];
  /** Given back before the thread has dropped the hold: it may still write to them. */
  readonly #undropped: Slot[] = [];

  constructor(sendPage: (buffer: SharedArrayBuffer) => void) {
    this.#sendPage = sendPage;
  }

  take(): Slot {
    // One of them each time, in turn: a slow one must not block the others.
    const undropped = this.#undropped.shift();
    if (undropped !== undefined) this.giveBack(undropped);
    const slot = this.#free.pop();
    if (slot !== undefined) return slot;
    const buffer = new SharedArrayBuffer(PAGE_BYTES);
    this.#sendPage(buffer);
    this.#free.push(...slotsOf(buffer));
    return this.take();
  }

  giveBack(slot: Slot): void {
    (slot.isFree ? this.#free : this.#undropped).push(slot);
  }
}

/** The fields of `SharedHeader`. */
const TURN = 0;
const IS_LOOKING = 1;
const RELEASED = 2;
const HEADER_FIELDS = 3;

/** What the process and the thread tell each other of themselves. */
export class SharedHeader {
  readonly buffer: SharedArrayBuffer;
  readonly #fields: BigInt64Array;

  constructor(buffer = new SharedArrayBuffer(HEADER_FIELDS * BigInt64Array.BYTES_PER_ELEMENT)) {
    this.buffer = buffer;
    this.#fields = new BigInt64Array(buffer);
  }

  /** The event loop of the process has a turn. */
  setTurn(clock: Clock): void {
    Atomics.store(this.#fields, TURN, toMicroseconds(clock.monotonicMs()));
  }

  /** How long ago that was. */
  turnAgoMs(clock: Clock): number {
    return clock.monotonicMs() - toMs(Atomics.load(this.#fields, TURN));
  }

  /** The thread releases the claims of a process that hangs. */
  setReleased(clock: Clock): void {
    Atomics.store(this.#fields, RELEASED, toMicroseconds(clock.monotonicMs()));
  }

  /** Whether it has done so since that instant. */
  isReleasedSince(monotonicMs: number): boolean {
    return Atomics.load(this.#fields, RELEASED) >= toMicroseconds(monotonicMs);
  }

  /** Whether the thread looks for new holds by itself. */
  get isLooking(): boolean {
    return Atomics.load(this.#fields, IS_LOOKING) === 1n;
  }

  set isLooking(isLooking: boolean) {
    Atomics.store(this.#fields, IS_LOOKING, isLooking ? 1n : 0n);
  }
}
