import { AheadWatch, type QueueWatches, type Watching } from '../shared/ahead-watch.ts';
import { CallbackIndex } from '../shared/callback-index.ts';
import { ClaimMap } from '../shared/claim-map.ts';
import type { Claim } from './claim.ts';
import type { WatchHub } from './watch-hub.ts';

/**
 * For each lock that claims of this store wait for, one watch for changes of its notes. With one for
 * each claim, watches ended so late that a hundred handoffs took 111 to 119 events instead of 100
 * (`test/etcd/store.test.ts` counts them).
 */
class NoteWatches {
  readonly #hub: WatchHub;
  readonly #fires = new CallbackIndex();
  readonly #watching = new Map<string, Watching>();

  constructor(hub: WatchHub) {
    this.#hub = hub;
  }

  /** A waiter is also woken without this watch, by polling, so that a refused watch does not matter. */
  add({ lock: keys, revision }: Claim, fire: () => void): () => void {
    const lock = keys.from.toString('latin1');
    if (!this.#fires.has(lock)) {
      const watched = { key: keys.note, from: (revision ?? 0n) + 1n, puts: true };
      this.#watching.set(
        lock,
        this.#hub.add(watched, () => this.#fires.call(lock)),
      );
    }
    const remove = this.#fires.add(lock, fire);
    return () => {
      if (!remove()) return;
      this.#watching.get(lock)?.cancel();
      this.#watching.delete(lock);
    };
  }
}

/**
 * Waiting claims watch for the deletion of keys, and for changes of notes. `onEvicted` is called when
 * the key of a held claim is deleted.
 */
function queueWatches(hub: WatchHub, onEvicted: (claim: Claim) => void): QueueWatches<Claim> {
  const notes = new NoteWatches(hub);
  const deleted = (key: Buffer, from: bigint, fire: () => void): Watching =>
    hub.add({ key, from, puts: false }, fire);
  return {
    own: (claim, fire) => {
      const onDeleted = (): void => (claim.isGranted ? onEvicted(claim) : fire());
      claim.keyWatch ??= deleted(claim.key, (claim.revision ?? 0n) + 1n, onDeleted);
      const stopNotes = notes.add(claim, () => fire());
      const cancel = (): void => {
        stopNotes();
        if (!claim.isGranted) claim.endKeyWatch();
      };
      return { armed: claim.keyWatch.armed, cancel };
    },
    // The watch includes `since` itself: one transaction may read a key and delete it.
    ahead: (claim, behind, since, fire) =>
      deleted(Buffer.from(behind, 'latin1'), since, () => {
        claim.isNext = true;
        fire();
      }),
    queue: ({ lock }, since, fire) =>
      hub.add({ key: lock.from, range_end: lock.end, from: since, puts: false }, fire),
    queueOf: ({ lock }) => lock.from.toString('latin1'),
    isAhead: (a, b) => (a.revision ?? 0n) < (b.revision ?? 0n),
  };
}

/** The claims of this store that exist, or may exist, and the watches of those that wait. */
export class ClaimTable extends ClaimMap<Claim> {
  readonly watch: AheadWatch<Claim>;

  constructor(hub: WatchHub, onEvicted: (claim: Claim) => void) {
    super();
    this.watch = new AheadWatch(queueWatches(hub, onEvicted));
  }

  override add(claim: Claim): void {
    super.add(claim);
    claim.lease.claims.add(claim.keyText);
  }

  remove(claim: Claim): void {
    this.delete(claim);
    claim.lease.claims.delete(claim.keyText);
    this.watch.end(claim);
    claim.endKeyWatch();
  }
}
