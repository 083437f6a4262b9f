import type { Core } from '../core.ts';
import type { HeldClaim } from '../hold/held-claim.ts';
import { ClaimHold, type Hold } from '../hold/hold.ts';
import { onAbort } from '../util/abort.ts';
import type { JsonObject } from '../util/json.ts';
import { metadataIn } from '../view.ts';

/** One run of a schedule. */
export interface Tick {
  /** The schedule. */
  readonly name: string;
  /** The slot of the run. For an extra run of `runNow`: when it was requested. */
  readonly slot: Date;
  /** How long after its slot the run started, by this process's clock. */
  readonly lateMs: number;
  /** The schedule's own claim, which keeps runs apart. Its fence rises from run to run. */
  readonly hold: Hold;
  /** Aborts when the hold is lost, and when the schedule is stopped. */
  readonly signal: AbortSignal;
}

/** The stored note also has the slot, which is not part of the user's metadata. */
class TickHold extends ClaimHold {
  readonly #metadata: JsonObject | null;

  constructor(core: Core, held: HeldClaim, note: string) {
    super(core, held);
    this.#metadata = metadataIn(note);
  }

  override get metadata(): JsonObject | null {
    return this.#metadata;
  }
}

interface TickOptions {
  readonly name: string;
  readonly slotMs: number;
  /** The user's metadata, encoded. */
  readonly note: string;
  /** Aborts when the schedule is stopped. */
  readonly stopped: AbortSignal;
}

export class RunTick implements Tick {
  readonly name: string;
  readonly slot: Date;
  readonly lateMs: number;
  readonly hold: Hold;
  readonly #controller = new AbortController();
  readonly #stopListening: readonly (() => void)[];

  constructor(core: Core, held: HeldClaim, { name, slotMs, note, stopped }: TickOptions) {
    this.name = name;
    this.slot = new Date(slotMs);
    this.lateMs = Math.max(0, core.clock.wallMs() - slotMs);
    this.hold = new TickHold(core, held, note);
    this.#stopListening = [this.hold.signal, stopped].map((signal) => {
      const abort = (): void => this.#controller.abort(signal.reason);
      if (signal.aborted) abort();
      return onAbort(signal, abort);
    });
  }

  /** Reading it checks the deadline of the hold, as with `hold.signal`. */
  get signal(): AbortSignal {
    void this.hold.signal;
    return this.#controller.signal;
  }

  /** Stops forwarding aborts: the function has ended. */
  end(): void {
    for (const stop of this.#stopListening) stop();
  }
}
