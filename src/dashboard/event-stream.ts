import type { Clock, Timer } from '../clock.ts';
import { RefusedError } from './answers.ts';
import type { DeltaEvent, FailedEvent, LockSummary, SnapshotEvent } from './api.ts';
import type { Scan, ScanLoop } from './scan-loop.ts';
import { Viewer } from './viewer.ts';

const VIEWERS_MAX = 2_000;
/** A part of a list is small enough for a page to take in without a visible pause. */
const PART = 500;
const HEARTBEAT_MS = 15_000;
/** A stream ends after this, and the page opens another: access may have been withdrawn meanwhile. */
const STREAM_MS = 600_000;
/** Without a change, viewers still hear this often that the list is current. */
const STILL_MS = 5_000;

const encoder = new TextEncoder();
const HEARTBEAT = encoder.encode(': still here\n\n');
/** Also says when a browser opens the stream again once it has ended. */
const WELCOME = encoder.encode(': connected\nretry: 1000\n\n');

type Message = Uint8Array;

function message(event: 'snapshot' | 'delta' | 'failed', data: unknown): Message {
  return encoder.encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

/**
 * The live list for all viewers. Each message is encoded once and shared, so a viewer costs a few
 * references.
 */
export class EventStream {
  readonly #clock: Clock;
  readonly #loop: ScanLoop;
  readonly #viewers = new Set<Viewer>();
  #stopListening: (() => void) | null = null;
  #heartbeat: Timer | null = null;
  #saidAtMs = 0;
  #snapshot: { readonly scan: Scan; readonly messages: readonly Message[] } | null = null;

  constructor(clock: Clock, loop: ScanLoop) {
    this.#clock = clock;
    this.#loop = loop;
  }

  /** The body of one viewer's answer. Throws `RefusedError` when there are too many. */
  open(signal: AbortSignal): ReadableStream<Uint8Array> {
    if (this.#viewers.size >= VIEWERS_MAX)
      throw new RefusedError(503, 'too-many', 'Too many viewers.', { 'retry-after': '10' });
    const viewer = new Viewer(this.#clock, {
      snapshot: () => this.#latestSnapshot(),
      onEnd: () => {
        timer.cancel();
        this.#leave(viewer);
      },
    });
    const timer = this.#clock.startTimer(STREAM_MS, () => viewer.end());
    this.#viewers.add(viewer);
    signal.addEventListener('abort', () => viewer.end(), { once: true });
    if (this.#stopListening === null) this.#start();
    // Sent at once, so that the caller knows that the stream is open.
    viewer.push(WELCOME);
    if (this.#loop.latest !== null) viewer.restart();
    return viewer.body;
  }

  get viewers(): number {
    return this.#viewers.size;
  }

  close(): void {
    for (const viewer of [...this.#viewers]) viewer.end();
  }

  #start(): void {
    this.#stopListening = this.#loop.listen({
      onScan: (scan, before) => this.#onScan(scan, before),
      onFailed: (failure) => this.#send([message('failed', failure satisfies FailedEvent)]),
    });
    this.#beat();
  }

  #beat(): void {
    this.#heartbeat = this.#clock.startTimer(HEARTBEAT_MS, () => {
      this.#send([HEARTBEAT]);
      if (this.#viewers.size > 0) this.#beat();
    });
  }

  #leave(viewer: Viewer): void {
    if (!this.#viewers.delete(viewer) || this.#viewers.size > 0) return;
    this.#stopListening?.();
    this.#stopListening = null;
    this.#heartbeat?.cancel();
    this.#snapshot = null;
  }

  #send(messages: readonly Message[]): void {
    for (const viewer of [...this.#viewers]) for (const each of messages) viewer.push(each);
  }

  #onScan(scan: Scan, before: Scan | null): void {
    if (before === null) {
      for (const viewer of [...this.#viewers]) viewer.restart();
      return;
    }
    const changed = [...scan.locks].flatMap(([key, lock]) => (before.locks.get(key) === lock ? [] : [lock]));
    const removed = [...before.locks].flatMap(([key, { name, use }]) =>
      scan.locks.has(key) ? [] : [{ name, use }],
    );
    const isStill = changed.length + removed.length === 0 && scan.isTruncated === before.isTruncated;
    const nowMs = this.#clock.monotonicMs();
    if (isStill && nowMs - this.#saidAtMs < STILL_MS) return;
    this.#saidAtMs = nowMs;
    this.#send(deltas(scan, changed, removed));
  }

  #latestSnapshot(): readonly Message[] {
    const scan = this.#loop.latest;
    if (scan === null) return [];
    if (this.#snapshot?.scan !== scan) this.#snapshot = { scan, messages: snapshot(scan) };
    return this.#snapshot.messages;
  }
}

function headOf({ takenAtMs, intervalMs, isTruncated, locks }: Scan) {
  return { takenAtMs, intervalMs, isTruncated, total: locks.size };
}

function snapshot(scan: Scan): Message[] {
  const locks = [...scan.locks.values()];
  const parts = Math.max(Math.ceil(locks.length / PART), 1);
  return Array.from({ length: parts }, (_, part) =>
    message('snapshot', {
      ...headOf(scan),
      ...{ part, parts },
      locks: locks.slice(part * PART, (part + 1) * PART),
    } satisfies SnapshotEvent),
  );
}

function deltas(scan: Scan, changed: readonly LockSummary[], removed: DeltaEvent['removed']): Message[] {
  const parts = Math.max(Math.ceil(changed.length / PART), 1);
  return Array.from({ length: parts }, (_, part) =>
    message('delta', {
      ...headOf(scan),
      changed: changed.slice(part * PART, (part + 1) * PART),
      removed: part === 0 ? removed : [],
    } satisfies DeltaEvent),
  );
}
