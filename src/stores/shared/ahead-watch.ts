import type { Waiter } from '../../store/store.ts';

/** A watch at the server. */
export interface Watching {
  /**
   * Resolves when the server watches, or the watch was cancelled. Rejects when the server cannot
   * watch.
   */
  readonly armed: Promise<void>;
  cancel(): void;
}

/**
 * How a store watches its queues. A watch must not miss a change after `since`: it begins at that
 * position of the server's log, or fires at once if the change has already happened.
 */
export interface QueueWatches<Claim> {
  /**
   * Fires when the claim should ask again for another reason than its turn: its own queue entry is
   * gone, or a note in the queue has changed. `null`: the store does not watch for that.
   */
  own(claim: Claim, fire: () => void): Watching | null;
  /** Fires when the entry `behind` is gone. */
  ahead(claim: Claim, behind: string, since: bigint, fire: () => void): Watching;
  /** Fires after every change that may make room in the claim's queue. */
  queue(claim: Claim, since: bigint, fire: () => void): Watching;
  /** Identifies the queue of the claim. */
  queueOf(claim: Claim): string;
  /** Whether `a` is ahead of `b` in their queue. */
  isAhead(a: Claim, b: Claim): boolean;
}

/** The watches of one claim. */
interface Entry<Claim> {
  readonly claim: Claim;
  own: Watching | null;
  /** The queue entry that has to go first; `null`: the claim shares the watch of its queue. */
  behind: string | null;
  ahead: Watching | null;
  /** The server refused the watch, or could not be asked. The claim has to poll. */
  hasFailed: boolean;
}

/**
 * The claims that wait for permits of one lock share a watch on its queue. Any release may make
 * room, so every change wakes the first of these claims.
 */
interface Group<Claim> {
  readonly entries: Set<Entry<Claim>>;
  readonly watching: Watching;
}

/**
 * Wakes waiting claims. A claim for a mutex or a read-write lock watches the one claim that has to
 * go first. So a release wakes one waiter, or all readers behind the same writer, which are granted
 * together.
 */
export class AheadWatch<Claim extends { readonly waiter: Waiter | null }> {
  readonly #watches: QueueWatches<Claim>;
  readonly #entries = new Map<Claim, Entry<Claim>>();
  readonly #groups = new Map<string, Group<Claim>>();

  constructor(watches: QueueWatches<Claim>) {
    this.#watches = watches;
  }

  /**
   * To be called before the claim is refused. Wakes the waiter once `behind` is gone (`null`: once
   * any change may have made room), for every change after `since`. Resolves when the server
   * watches, or cannot watch; never rejects. The promise need not be awaited: no change is missed
   * meanwhile. A claim without a waiter is not watched.
   */
  async arm(claim: Claim, behind: string | null, since: bigint): Promise<void> {
    if (claim.waiter === null) return this.end(claim);
    const entry = this.#entries.get(claim) ?? { claim, own: null, behind, ahead: null, hasFailed: false };
    this.#entries.set(claim, entry);
    const isSame = entry.ahead !== null && entry.behind === behind;
    entry.behind = behind;
    if (!isSame) this.#armAhead(entry, since);
    entry.own ??= this.#watches.own(claim, () => claim.waiter?.wake());
    await this.#settle(entry);
  }

  /** Whether a change wakes the claim. False: it has no waiter or no watch, and has to poll. */
  isWatched(claim: Claim): boolean {
    return this.#entries.get(claim)?.hasFailed === false;
  }

  /** The claim is granted, or has left the queue. */
  end(claim: Claim): void {
    const entry = this.#entries.get(claim);
    if (entry === undefined) return;
    this.#entries.delete(claim);
    disarm(entry);
  }

  /** The connection is over, and every watch with it. Nothing is watched until the next `arm`. */
  unwatch(): void {
    const groups = [...this.#groups.values()];
    this.#groups.clear();
    for (const { watching } of groups) watching.cancel();
    for (const entry of this.#entries.values()) disarm(entry);
  }

  #armAhead(entry: Entry<Claim>, since: bigint): void {
    const { claim, behind } = entry;
    entry.ahead?.cancel();
    entry.ahead =
      behind === null
        ? this.#join(entry, since)
        : this.#watches.ahead(claim, behind, since, () => {
            // An entry is removed only once. If a stale read still shows it, the next refusal
            // watches it again.
            entry.ahead?.cancel();
            entry.ahead = null;
            claim.waiter?.wake();
          });
  }

  async #settle(entry: Entry<Claim>): Promise<void> {
    const { own, ahead } = entry;
    try {
      await Promise.all([own?.armed, ahead?.armed]);
      if (entry.ahead === ahead) entry.hasFailed = false;
    } catch {
      if (this.#entries.get(entry.claim) !== entry || entry.ahead !== ahead) return;
      const isFirstFailure = !entry.hasFailed;
      entry.hasFailed = true;
      disarm(entry);
      // The last refusal had a long `retryAfterMs`. The claim asks once more, and polls from then on.
      if (isFirstFailure) entry.claim.waiter?.wake();
    }
  }

  #join(entry: Entry<Claim>, since: bigint): Watching {
    const queue = this.#watches.queueOf(entry.claim);
    let group = this.#groups.get(queue);
    if (group === undefined) {
      const watching = this.#watches.queue(entry.claim, since, () => this.#wakeFirst(queue));
      group = { entries: new Set([entry]), watching };
      this.#groups.set(queue, group);
    } else {
      group.entries.add(entry);
      // A change between its refusal and now has woken the claim that was first until now, which is
      // behind this one.
      if (this.#first(group) === entry) entry.claim.waiter?.wake();
    }
    return { armed: group.watching.armed, cancel: () => this.#leave(queue, entry) };
  }

  #leave(queue: string, entry: Entry<Claim>): void {
    const group = this.#groups.get(queue);
    if (group === undefined || !group.entries.delete(entry)) return;
    if (group.entries.size === 0) {
      this.#groups.delete(queue);
      group.watching.cancel();
    }
    // There may be room for one more claim than the one that has left.
    else this.#wakeFirst(queue);
  }

  #wakeFirst(queue: string): void {
    const group = this.#groups.get(queue);
    if (group !== undefined) this.#first(group)?.claim.waiter?.wake();
  }

  #first({ entries }: Group<Claim>): Entry<Claim> | null {
    let first: Entry<Claim> | null = null;
    for (const entry of entries) {
      if (first === null || this.#watches.isAhead(entry.claim, first.claim)) first = entry;
    }
    return first;
  }
}

function disarm(entry: { own: Watching | null; ahead: Watching | null }): void {
  const { own, ahead } = entry;
  entry.own = null;
  entry.ahead = null;
  own?.cancel();
  ahead?.cancel();
}
