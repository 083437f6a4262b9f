import type { Clock } from '../../clock.ts';
import type { Link } from './link.ts';

/** What a store does with what it hears. */
export interface Hearing {
  /** This claim was granted. With what it needs to know, or without: then it has to ask. */
  onGranted(key: string, id: string, told: { fence: bigint; endsAtServerMs: number } | null): void;
  /** This observed lock has changed. `mayFree`: somebody may go on because of it. */
  onChanged(key: string, mayFree: boolean): void;
  /** The connection came or went, so something may have been missed. */
  onBreak(): void;
}

/** As the scripts write them. */
const FENCE = /^\d{16}$/;
/** How long to wait for the connection before going on without: wake-ups are a hint, and asking again is the guarantee. */
const CONNECT_MS = 1_000;

/** The one connection of a store that listens, made when somebody first waits. */
export class Listener {
  /** Ours alone. What is published here says for which claim it is. */
  readonly channel: string;
  readonly #link: Link;
  readonly #channelBase: string;
  readonly #clock: Clock;
  readonly #hearing: Hearing;
  #subscription: { close(): Promise<void> } | null = null;
  #isUp = false;
  /** It did not come up in time once, so nobody waits for it again; when it does come up, everybody is woken. */
  #isLate = false;
  #onUp: Array<() => void> = [];

  constructor(link: Link, channelBase: string, clock: Clock, hearing: Hearing) {
    this.#link = link;
    this.#channelBase = channelBase;
    this.#clock = clock;
    this.#hearing = hearing;
    this.channel = Math.floor(clock.random() * 2 ** 47).toString(36);
  }

  get isUp(): boolean {
    return this.#isUp;
  }

  /** Resolves when it listens, or after a while in any case. */
  async start(): Promise<void> {
    if (this.#isUp) return;
    this.#subscription ??= this.#link.listen(this.#channelBase + this.channel, {
      onMessage: (message) => this.#onMessage(message),
      onUp: () => this.#setUp(true),
      onDown: () => this.#setUp(false),
    });
    if (this.#isLate) return;
    await new Promise<void>((resolve) => {
      const timer = this.#clock.startTimer(CONNECT_MS, () => {
        this.#isLate = true;
        resolve();
      });
      this.#onUp.push(() => {
        timer.cancel();
        resolve();
      });
    });
  }

  async close(): Promise<void> {
    const subscription = this.#subscription;
    this.#subscription = null;
    this.#isUp = false;
    this.#release();
    await subscription?.close();
  }

  #setUp(isUp: boolean): void {
    if (this.#subscription === null || this.#isUp === isUp) return;
    this.#isUp = isUp;
    if (isUp) {
      this.#isLate = false;
      this.#release();
    }
    this.#hearing.onBreak();
  }

  #release(): void {
    for (const resolve of this.#onUp.splice(0)) resolve();
  }

  #onMessage(message: string): void {
    const [kind, key = '', id = '', fence, ends] = message.split('\n');
    // Anybody may publish anything here, and what is thrown out of a client's event ends the process.
    const isTold = fence !== undefined && FENCE.test(fence) && ends !== undefined && /^\d+$/.test(ends);
    const told = isTold ? { fence: BigInt(fence), endsAtServerMs: Number(ends) } : null;
    if (kind === 'g') this.#hearing.onGranted(key, id, told);
    else if (kind === 'o' || kind === 'h') this.#hearing.onChanged(key, kind === 'o');
  }
}
