import type { Core } from '../core.ts';
import type { ClaimOutcome, ClaimRequest } from '../store/store.ts';
import type { Command } from './command.ts';
import type { Grant } from './grant.ts';
import { type Instant, instant } from './validity.ts';

/** Who asks, and makes of the answer what it can. */
interface Asker {
  readonly core: Core;
  onAnswer(ask: Ask, outcome: ClaimOutcome): void;
  onFailure(ask: Ask, error: unknown): void;
  onLate(): void;
}

/** One claim on its way. */
export class Ask implements Command<ClaimOutcome> {
  place = 0;
  isLate = false;
  readonly #asker: Asker;
  readonly request: ClaimRequest;
  readonly limitMs: number;
  /** Whether the store may have had something of ours before. */
  readonly stoodBefore: boolean;
  readonly done: (grant: Grant | null) => void;
  readonly failed: (error: unknown) => void;
  readonly sent: Instant;
  /** Whoever asked has left meanwhile. */
  isStopped = false;

  constructor(
    asker: Asker,
    request: ClaimRequest,
    limitMs: number,
    stoodBefore: boolean,
    done: (grant: Grant | null) => void,
    failed: (error: unknown) => void,
  ) {
    this.#asker = asker;
    this.request = request;
    this.limitMs = limitMs;
    this.stoodBefore = stoodBefore;
    this.done = done;
    this.failed = failed;
    this.sent = instant(asker.core.clock);
  }

  send(signal: AbortSignal): Promise<ClaimOutcome> {
    return this.#asker.core.store.claim(this.request, signal);
  }

  onAnswer(outcome: ClaimOutcome): void {
    this.#asker.onAnswer(this, outcome);
  }

  onFailure(error: unknown): void {
    this.#asker.onFailure(this, error);
  }

  onLate(): void {
    this.#asker.onLate();
  }
}
