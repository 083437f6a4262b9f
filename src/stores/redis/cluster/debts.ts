import type { Clock, Timer } from '../../../clock.ts';
import { Bag, type Bagged } from '../../../hold/bag.ts';

/** A node that owes an answer for so long may be dead, and others may know who serves its slots now. */
const SILENT_MS = 1_000;

/** A command that was sent and has no answer yet. */
interface Debt extends Bagged {
  readonly slot: number;
  readonly reject: (error: Error) => void;
}

interface Debtor {
  readonly debts: Bag<Debt>;
  /** When it last gave an answer, or first owed one. */
  heardMs: number;
}

/** What the nodes owe us. A node that is stopped or cut off rejects nothing: it only does not answer. */
export class Debts {
  readonly #clock: Clock;
  readonly #onSilence: () => void;
  readonly #debtors = new Map<string, Debtor>();
  #timer: Timer | null = null;

  constructor(clock: Clock, onSilence: () => void) {
    this.#clock = clock;
    this.#onSilence = onSilence;
  }

  /** The result is called when the answer is there, and says whether anybody still waits for it: a debt that was written off is nobody's any more. */
  add(address: string, slot: number, reject: (error: Error) => void): () => boolean {
    let debtor = this.#debtors.get(address);
    if (debtor === undefined) {
      debtor = { debts: new Bag(), heardMs: 0 };
      this.#debtors.set(address, debtor);
    }
    const { debts } = debtor;
    if (debts.all.length === 0) debtor.heardMs = this.#clock.monotonicMs();
    const debt = { slot, reject };
    debts.add(debt);
    this.#timer ??= this.#clock.startTimer(SILENT_MS, () => this.#look());
    const owner = debtor;
    return () => {
      const isOwed = debts.delete(debt);
      // Only while more is owed does it matter when the last answer came.
      if (isOwed && debts.all.length > 0) owner.heardMs = this.#clock.monotonicMs();
      return isOwed;
    };
  }

  /** What a silent node owes for slots that another node serves now is never paid: whoever waits for it should ask again, there. */
  writeOff(addressOf: (slot: number) => string | undefined): void {
    for (const [address, { debts }] of this.#silent()) {
      for (const debt of [...debts.all]) {
        if (addressOf(debt.slot) === address) continue;
        debts.delete(debt);
        debt.reject(new Error(`no answer from ${address}, and its slot is served by another node now`));
      }
    }
  }

  close(): void {
    this.#timer?.cancel();
    this.#timer = null;
    this.#debtors.clear();
  }

  #silent(): Array<[string, Debtor]> {
    const nowMs = this.#clock.monotonicMs();
    return [...this.#debtors].filter(
      ([, { debts, heardMs }]) => debts.all.length > 0 && nowMs - heardMs >= SILENT_MS,
    );
  }

  #look(): void {
    this.#timer = null;
    if ([...this.#debtors.values()].every(({ debts }) => debts.all.length === 0)) return;
    if (this.#silent().length > 0) this.#onSilence();
    this.#timer = this.#clock.startTimer(SILENT_MS, () => this.#look());
  }
}
