/** Something that is watched. */
export interface Watching {
  /** Resolves when the server has begun to watch, or when it was given up. */
  readonly armed: Promise<void>;
  cancel(): void;
}

/** How a store watches what its waiters wait for. `Spot` names the one claim that has to go first. */
export interface LineWatches<Claim, Spot> {
  isSame(a: Spot, b: Spot): boolean;
  /** Its own place, which must be taken again when it is gone; `null` where that is found out in another way. */
  watchOwn(claim: Claim, fire: () => void): Watching | null;
  watchSpot(spot: Spot, since: bigint, fire: () => void): Watching;
  /** Everything that may make room in the claim's line, from when the claim was last refused. */
  watchLine(claim: Claim, since: bigint, fire: () => void): Watching;
  lineOf(claim: Claim): string;
  isAhead(a: Claim, b: Claim): boolean;
}

/** A claim that waits in line and what it listens to. */
interface Waiter<Claim, Spot> {
  readonly claim: Claim;
  readonly wakes: Set<() => void>;
  own: Watching | null;
  /** What it stands behind, and since when that was there. */
  behind: Spot | null;
  since: bigint;
  ahead: Watching | null;
}

/** Those of one semaphore share a watch on all of its permits: any of them may make room, and the first in line is told. */
interface Group<Claim, Spot> {
  readonly waiters: Set<Waiter<Claim, Spot>>;
  readonly watching: Watching;
}

/**
 * Who is woken by what. A claim that waits for a mutex or a read-write lock watches the one claim that it stands behind, so one release wakes one waiter (or all readers that
 * stood behind the same writer, who enter together).
 */
export class Waiters<Claim, Spot> {
  readonly #watches: LineWatches<Claim, Spot>;
  readonly #waiters = new Map<Claim, Waiter<Claim, Spot>>();
  readonly #groups = new Map<string, Group<Claim, Spot>>();

  constructor(watches: LineWatches<Claim, Spot>) {
    this.#watches = watches;
  }

  isListening(claim: Claim): boolean {
    const waiter = this.#waiters.get(claim);
    return waiter !== undefined && waiter.wakes.size > 0;
  }

  /** The claim was refused: `behind` has to go first (`null`: several can make room), and was there at `since`. */
  aim(claim: Claim, behind: Spot | null, since: bigint): void {
    const waiter = this.#waiterOf(claim);
    const isSame =
      behind === null || waiter.behind === null
        ? behind === waiter.behind
        : this.#watches.isSame(waiter.behind, behind);
    waiter.behind = behind;
    waiter.since = since;
    if (isSame && waiter.ahead !== null) return;
    if (waiter.wakes.size > 0) this.#arm(waiter);
  }

  async listen(claim: Claim, wake: () => void): Promise<AsyncDisposable> {
    const waiter = this.#waiterOf(claim);
    // A fresh function: the same callback may listen twice.
    const own = (): void => wake();
    waiter.wakes.add(own);
    if (waiter.own === null) waiter.own = this.#watches.watchOwn(claim, () => tell(waiter));
    if (waiter.ahead === null) this.#arm(waiter);
    await Promise.all([waiter.own?.armed, (waiter.ahead as Watching | null)?.armed]);
    return {
      [Symbol.asyncDispose]: async () => {
        waiter.wakes.delete(own);
        if (waiter.wakes.size === 0) this.#disarm(waiter);
      },
    };
  }

  /** What was watched is not watched any more, and need not be until the next refusal. */
  unwatch(): void {
    for (const waiter of this.#waiters.values()) this.#disarm(waiter);
  }

  /** The connection that everything was watched over is gone: watches it over the next one. */
  watchAgain(): void {
    this.unwatch();
    for (const waiter of this.#waiters.values()) {
      if (waiter.wakes.size === 0) continue;
      waiter.own = this.#watches.watchOwn(waiter.claim, () => tell(waiter));
      this.#arm(waiter);
    }
  }

  /** The claim holds, or has left the line. */
  end(claim: Claim): void {
    const waiter = this.#waiters.get(claim);
    if (waiter === undefined) return;
    this.#waiters.delete(claim);
    this.#disarm(waiter);
  }

  #waiterOf(claim: Claim): Waiter<Claim, Spot> {
    let waiter = this.#waiters.get(claim);
    if (waiter === undefined) {
      waiter = { claim, wakes: new Set(), own: null, behind: null, since: 0n, ahead: null };
      this.#waiters.set(claim, waiter);
    }
    return waiter;
  }

  #arm(waiter: Waiter<Claim, Spot>): void {
    waiter.ahead?.cancel();
    const { behind } = waiter;
    waiter.ahead =
      behind === null
        ? this.#join(waiter)
        : this.#watches.watchSpot(behind, waiter.since, () => tell(waiter));
  }

  #join(waiter: Waiter<Claim, Spot>): Watching {
    const line = this.#watches.lineOf(waiter.claim);
    let group = this.#groups.get(line);
    if (group === undefined) {
      const watching = this.#watches.watchLine(waiter.claim, waiter.since, () => this.#tellFirst(line));
      group = { waiters: new Set(), watching };
      this.#groups.set(line, group);
    }
    group.waiters.add(waiter);
    return { armed: group.watching.armed, cancel: () => this.#part(line, waiter) };
  }

  #part(line: string, waiter: Waiter<Claim, Spot>): void {
    const group = this.#groups.get(line);
    if (group === undefined || !group.waiters.delete(waiter)) return;
    if (group.waiters.size === 0) {
      this.#groups.delete(line);
      group.watching.cancel();
    }
    // There may be room for more than the one that has just got in.
    else this.#tellFirst(line);
  }

  #tellFirst(line: string): void {
    let first: Waiter<Claim, Spot> | null = null;
    for (const waiter of this.#groups.get(line)?.waiters ?? []) {
      if (first === null || this.#watches.isAhead(waiter.claim, first.claim)) first = waiter;
    }
    if (first !== null) tell(first);
  }

  #disarm(waiter: Waiter<Claim, Spot>): void {
    waiter.own?.cancel();
    waiter.own = null;
    waiter.ahead?.cancel();
    waiter.ahead = null;
  }
}

function tell<Claim, Spot>(waiter: Waiter<Claim, Spot>): void {
  for (const wake of [...waiter.wakes]) wake();
}
