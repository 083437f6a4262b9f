import type { Claim } from './claim.ts';
import type { WatchHub, Watching } from './watch-hub.ts';

/** A claim that waits in line and what it listens to. */
interface Waiter {
  readonly claim: Claim;
  readonly wakes: Set<() => void>;
  /** Its own key: a place that is gone must be taken again. */
  own: Watching | null;
  /** What it stands behind, and since when that was there. */
  behind: Buffer | null;
  since: bigint;
  ahead: Watching | null;
}

/** Those of one semaphore share a watch on all of its permits: any of them may make room, and the first in line is told. */
interface Group {
  readonly waiters: Set<Waiter>;
  readonly watching: Watching;
}

/**
 * Who is woken by what. A claim that waits for a mutex or a read-write lock watches the one key that it stands behind, so one release wakes one waiter (or all readers that
 * stood behind the same writer, who enter together).
 */
export class Waiters {
  readonly #hub: WatchHub;
  readonly #waiters = new Map<Claim, Waiter>();
  readonly #groups = new Map<string, Group>();

  constructor(hub: WatchHub) {
    this.#hub = hub;
  }

  isListening(claim: Claim): boolean {
    const waiter = this.#waiters.get(claim);
    return waiter !== undefined && waiter.wakes.size > 0;
  }

  /** The claim was refused: `behind` has to go first, and was there at revision `since`. */
  aim(claim: Claim, behind: Buffer | null, since: bigint): void {
    const waiter = this.#waiterOf(claim);
    const isSame = behind === null ? waiter.behind === null : waiter.behind?.equals(behind) === true;
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
    if (waiter.own === null) {
      const range = { key: claim.key, from: (claim.revision ?? 0n) + 1n, puts: false };
      waiter.own = this.#hub.add(range, () => tell(waiter));
    }
    if (waiter.ahead === null) this.#arm(waiter);
    await Promise.all([waiter.own.armed, waiter.ahead === null ? null : (waiter.ahead as Watching).armed]);
    return {
      [Symbol.asyncDispose]: async () => {
        waiter.wakes.delete(own);
        if (waiter.wakes.size === 0) this.#disarm(waiter);
      },
    };
  }

  /** The claim holds, or has left the line. */
  end(claim: Claim): void {
    const waiter = this.#waiters.get(claim);
    if (waiter === undefined) return;
    this.#waiters.delete(claim);
    this.#disarm(waiter);
  }

  #waiterOf(claim: Claim): Waiter {
    let waiter = this.#waiters.get(claim);
    if (waiter === undefined) {
      waiter = { claim, wakes: new Set(), own: null, behind: null, since: 0n, ahead: null };
      this.#waiters.set(claim, waiter);
    }
    return waiter;
  }

  #arm(waiter: Waiter): void {
    waiter.ahead?.cancel();
    if (waiter.behind === null) {
      waiter.ahead = this.#join(waiter);
      return;
    }
    // From that revision on and not after it: a transaction may read and delete a key at one revision.
    const range = { key: waiter.behind, from: waiter.since, puts: false };
    waiter.ahead = this.#hub.add(range, () => tell(waiter));
  }

  #join(waiter: Waiter): Watching {
    const { lock } = waiter.claim;
    const path = lock.from.toString('latin1');
    let group = this.#groups.get(path);
    if (group === undefined) {
      const range = { key: lock.from, range_end: lock.end, from: waiter.since, puts: false };
      group = { waiters: new Set(), watching: this.#hub.add(range, () => this.#tellFirst(path)) };
      this.#groups.set(path, group);
    }
    group.waiters.add(waiter);
    return { armed: group.watching.armed, cancel: () => this.#part(path, waiter) };
  }

  #part(path: string, waiter: Waiter): void {
    const group = this.#groups.get(path);
    if (group === undefined || !group.waiters.delete(waiter)) return;
    if (group.waiters.size === 0) {
      this.#groups.delete(path);
      group.watching.cancel();
    }
    // There may be room for more than the one that has just got in.
    else this.#tellFirst(path);
  }

  #tellFirst(path: string): void {
    let first: Waiter | null = null;
    for (const waiter of this.#groups.get(path)?.waiters ?? []) {
      if (first === null || (waiter.claim.revision ?? 0n) < (first.claim.revision ?? 0n)) first = waiter;
    }
    if (first !== null) tell(first);
  }

  #disarm(waiter: Waiter): void {
    waiter.own?.cancel();
    waiter.own = null;
    waiter.ahead?.cancel();
    waiter.ahead = null;
  }
}

function tell(waiter: Waiter): void {
  for (const wake of [...waiter.wakes]) wake();
}
