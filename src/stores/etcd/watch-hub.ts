import type { Clock } from '../../clock.ts';
import { StoreError } from '../../errors.ts';
import type { QueueWatches, Watching } from '../shared/ahead-watch.ts';
import { CallbackIndex } from '../shared/callback-index.ts';
import { type ConnectionEvents, type SubscribedConnection, Subscription } from '../shared/subscription.ts';
import type { Calls } from './calls.ts';
import type { Claim } from './claim.ts';
import type { Stream, WatchReply } from './client.ts';
import { isDenied } from './failure.ts';

interface WatchRange {
  readonly key: Buffer;
  readonly range_end?: Buffer;
  /** The first revision whose changes are reported; 0: from now on. */
  from: bigint;
  readonly filters: readonly ('Noput' | 'Nodelete')[];
}

export interface HubWatching extends Watching {
  /** The stream stays open only while others want it. Changes while it is closed are not reported. */
  unwant(): void;
}

/** A stream without a first answer is given up after this time. */
const SILENT_MS = 5_000;
/** How long an unused stream stays open for the next waiter. It keeps the process alive. */
const IDLE_MS = 500;

const nothing = (): void => {};

interface Entry extends WatchRange {
  readonly fire: () => void;
  watchId: string | null;
  isArmed: boolean;
  /** etcd has refused the last request to create it. */
  isRefused: boolean;
  /** These settle the promise that the server watches. */
  arm: () => void;
  fail: (error: Error) => void;
}

/**
 * All watches of this store, over one stream. After a reconnect each watch is created again from now
 * on, and fires once if a caller waits for it. From an old revision on, etcd would read every change
 * of all keys since then.
 */
export class WatchHub {
  readonly #calls: Calls;
  readonly #clock: Clock;
  readonly #subscription: Subscription<WatchReply>;
  readonly #entries = new Set<Entry>();
  /** Those for which the stream is opened, and kept open. */
  readonly #wanted = new Set<Entry>();
  /** Watches whose creation was requested. The answers come in the same order. */
  #creating: Entry[] = [];
  readonly #byId = new Map<string, Entry>();
  #stream: Stream<object, WatchReply> | null = null;
  #endStream = nothing;

  constructor(calls: Calls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
    this.#subscription = new Subscription({
      clock,
      open: (events) => this.#open(events),
      idleMs: IDLE_MS,
      isWanted: () => this.#wanted.size > 0,
      onMessage: (reply) => this.#onReply(reply),
    });
  }

  add(range: WatchRange, fire: () => void): HubWatching {
    const unset = { watchId: null, isArmed: false, isRefused: false, arm: nothing, fail: nothing };
    const entry: Entry = { ...range, fire, ...unset };
    const armed = new Promise<void>((resolve, reject) => {
      entry.arm = resolve;
      entry.fail = reject;
    });
    armed.catch(() => {});
    this.#entries.add(entry);
    this.#wanted.add(entry);
    if (this.#stream !== null) this.#create(entry);
    else void this.#subscription.start();
    return { armed, cancel: () => this.#cancel(entry), unwant: () => this.#unwant(entry) };
  }

  close(): void {
    for (const entry of [...this.#entries]) this.#cancel(entry);
    void this.#subscription.close();
  }

  #open(events: ConnectionEvents<WatchReply>): SubscribedConnection {
    let isClosed = false;
    let onAlive = (): void => {};
    const end = (): void => events.onEnd();
    const silence = this.#clock.startTimer(SILENT_MS, end);
    this.#calls.watch().then((stream) => {
      stream.on('error', end);
      stream.on('end', end);
      if (isClosed) return stream.cancel();
      stream.on('data', (reply) => {
        silence.cancel();
        onAlive();
        events.onUp();
        events.onMessage(reply);
      });
      this.#stream = stream;
      this.#endStream = end;
      for (const entry of this.#entries) this.#create(entry);
    }, end);
    return {
      close: () => {
        isClosed = true;
        silence.cancel();
        this.#stream?.cancel();
        this.#stream = null;
        this.#creating = [];
        this.#byId.clear();
        for (const entry of this.#entries) entry.watchId = null;
      },
      checkAlive: () =>
        new Promise<void>((resolve) => {
          onAlive = resolve;
          this.#stream?.write({ progress_request: {} });
        }),
    };
  }

  #create(entry: Entry): void {
    this.#creating.push(entry);
    const { key, range_end, from, filters } = entry;
    this.#stream?.write({ create_request: { key, range_end, start_revision: String(from), filters } });
  }

  #onReply(reply: WatchReply): void {
    if (reply.created) this.#onCreated(reply);
    else if (reply.canceled) this.#onCanceled(reply);
    else if (reply.events.length > 0) this.#byId.get(reply.watch_id)?.fire();
  }

  #onCreated(reply: WatchReply): void {
    const entry = this.#creating.shift();
    if (entry === undefined) return;
    if (reply.canceled) {
      this.#onRefused(entry);
      return;
    }
    entry.isRefused = false;
    entry.watchId = reply.watch_id;
    if (!this.#entries.has(entry)) {
      this.#stream?.write({ cancel_request: { watch_id: reply.watch_id } });
      return;
    }
    this.#byId.set(reply.watch_id, entry);
    if (entry.isArmed && this.#wanted.has(entry)) entry.fire();
    entry.isArmed = true;
    entry.from = 0n;
    entry.arm();
  }

  /** With each watch etcd checks the token of the stream, which may have expired. */
  #onRefused(entry: Entry): void {
    if (!this.#entries.has(entry)) return;
    if (entry.isRefused) {
      this.#fail(entry);
      return;
    }
    entry.isRefused = true;
    const end = this.#endStream;
    // For this call the client gets a new token if it needs one, and the next stream uses it.
    const read = this.#calls.reads.add({ ranges: [{ key: entry.key, keys_only: true }] });
    read.then(end, (error: unknown) => (isDenied(error) ? this.#fail(entry) : end()));
  }

  #fail(entry: Entry): void {
    if (!this.#entries.has(entry)) return;
    entry.fail(new StoreError('etcd refused the watch', { applied: 'no' }));
    this.#cancel(entry);
    if (entry.isArmed) entry.fire();
  }

  #onCanceled(reply: WatchReply): void {
    const entry = this.#byId.get(reply.watch_id);
    this.#byId.delete(reply.watch_id);
    if (entry === undefined) return;
    // Else the changes since `from` were compacted.
    if (reply.compact_revision === '0') this.#endStream();
    else this.#create(entry);
  }

  #cancel(entry: Entry): void {
    if (!this.#entries.delete(entry)) return;
    this.#unwant(entry);
    entry.arm();
    if (entry.watchId !== null && this.#byId.delete(entry.watchId))
      this.#stream?.write({ cancel_request: { watch_id: entry.watchId } });
  }

  #unwant(entry: Entry): void {
    if (this.#wanted.delete(entry) && this.#wanted.size === 0) this.#subscription.onUnwanted();
  }
}

/**
 * Waiting claims watch for the deletion of keys, and for changes of notes. `onEvicted` is called when
 * the key of a held claim is deleted.
 */
export function queueWatches(hub: WatchHub, onEvicted: (claim: Claim) => void): QueueWatches<Claim> {
  // One watch of the notes for each lock. With one for each claim, watches ended so late that a
  // hundred handoffs took 111 to 119 events instead of 100 (`test/etcd/store.test.ts` counts them).
  const notes = new CallbackIndex();
  const noteWatches = new Map<string, Watching>();
  const watchNotes = ({ lock: { path, note: key }, revision }: Claim, fire: () => void): (() => void) => {
    if (!notes.has(path)) {
      // The deletion of the announcement is no change of a note.
      const watched = { key, from: revision, filters: ['Nodelete'] } as const;
      noteWatches.set(
        path,
        hub.add(watched, () => notes.call(path)),
      );
    }
    const remove = notes.add(path, fire);
    return () => {
      if (!remove()) return;
      noteWatches.get(path)?.cancel();
      noteWatches.delete(path);
    };
  };
  const deleted = (key: Buffer, from: bigint, fire: () => void): HubWatching =>
    hub.add({ key, from, filters: ['Noput'] }, fire);
  return {
    own: (claim, fire) => {
      const onDeleted = (): void => (claim.isGranted ? onEvicted(claim) : fire());
      claim.keyWatch ??= deleted(claim.key, claim.revision, onDeleted);
      const stopNotes = watchNotes(claim, fire);
      const cancel = (): void => {
        stopNotes();
        // The watch of a hold does not keep the process alive.
        if (claim.isGranted) claim.keyWatch?.unwant();
        else claim.endKeyWatch();
      };
      // A waiter also polls, so that a refused watch of the notes does not matter.
      return { armed: claim.keyWatch.armed, cancel };
    },
    // The watch includes `since` itself: one transaction may read a key and delete it.
    ahead: (claim, behind, since, fire) =>
      deleted(Buffer.from(behind, 'latin1'), since, () => {
        claim.isNext = true;
        fire();
      }),
    queue: ({ lock }, since, fire) =>
      hub.add({ key: lock.from, range_end: lock.end, from: since, filters: ['Noput'] }, fire),
    queueOf: ({ lock }) => lock.path,
    isAhead: (a, b) => a.revision < b.revision,
  };
}
