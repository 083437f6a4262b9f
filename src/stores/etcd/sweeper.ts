import type { Timer } from '../../clock.ts';
import { elapsedMs } from '../../hold/validity.ts';
import type { Claim } from './claim.ts';
import type { Parts } from './parts.ts';

const SWEEP_MS = 1_000;

/** Looks after what nobody asks for any more, once a second while there is anything. Does not keep the process alive. */
export class Sweeper {
  readonly #parts: Parts;
  #timer: Timer | null = null;
  #isStopped = false;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  start(): void {
    if (this.#isStopped) return;
    this.#timer ??= this.#parts.clock.startTimer(SWEEP_MS, () => {
      this.#timer = null;
      if (this.#isStopped) return;
      const { claims, leases, transactions, keys } = this.#parts;
      for (const claim of claims) this.#sweep(claim);
      const nothing = { key: keys.nothing, count_only: true };
      const prove = async (): Promise<number> => (await transactions.read([nothing])).term;
      if (leases.sweep(prove) || claims.size > 0) this.start();
    });
  }

  stop(): void {
    this.#isStopped = true;
    this.#timer?.cancel();
  }

  /** Ends a claim whose own time is over while its lease lives on for others, and forgets one that must be gone. */
  #sweep(claim: Claim): void {
    const { clock, claims, reader, waiters } = this.#parts;
    const overMs = elapsedMs(clock, claim.sent) - claim.validForMs;
    if (overMs < 0 || claim.isEntering || claim.renewals > 0) return;
    const forget = (): void => {
      // It may have been renewed after all while the key was being removed; then the renewal has found it gone.
      if (claim.renewals > 0) return;
      claims.remove(claim);
      waiters.end(claim);
    };
    if (claim.lease.leftMs > 0) reader.remove(claim.key, claim.revision).then(forget, () => {});
    else if (overMs > claim.lease.ttlMs) forget();
  }
}
