import type { DeltaEvent, FailedEvent, LockSummary, LockUse, SessionInfo, SnapshotEvent } from '../../api.ts';
import { syncClock } from '../parts/ticker.ts';
import { basePath, getJson, RequestFailure } from './client.ts';

/**
 * `connecting`: nothing has come yet. `reconnecting`: the stream broke, and what is shown is old.
 * `store-failed`: the server answers, and its store does not. `denied`: signed out.
 */
export type LiveStatus = 'connecting' | 'live' | 'reconnecting' | 'store-failed' | 'denied';

export interface Live {
  readonly status: LiveStatus;
  /** Replaced, never changed, so that its identity tells whether to select again. */
  readonly locks: readonly LockSummary[];
  readonly total: number;
  readonly isTruncated: boolean;
  readonly intervalMs: number;
  readonly session: SessionInfo | null;
}

export const keyOf = (lock: { readonly name: string; readonly use: LockUse }): string =>
  `${lock.use} ${lock.name}`;

const RETRY_MIN_MS = 1000;
const RETRY_MAX_MS = 15_000;
const INTERVAL_MS = 1000;
/** The server ends each stream after a while, and the next one opens at once: nothing to worry about. */
const BROKEN_MS = 2000;
/** A tab that is hidden for longer has no stream. */
const HIDDEN_MS = 5000;

/** The list of locks, kept up to date by server-sent events. */
export class LiveList {
  #locks = new Map<string, LockSummary>();
  /** The parts of a snapshot that is not complete: what is shown stays until it is. */
  #incoming = new Map<string, LockSummary>();
  #source: EventSource | undefined;
  #retryMs = RETRY_MIN_MS;
  #brokenTimer: ReturnType<typeof setTimeout> | undefined;
  #hiddenTimer: ReturnType<typeof setTimeout> | undefined;
  #isPublishing = false;
  #areLocksNew = false;
  readonly #listeners = new Set<(live: Live) => void>();
  current: Live = {
    status: 'connecting',
    locks: [],
    total: 0,
    isTruncated: false,
    intervalMs: INTERVAL_MS,
    session: null,
  };

  onChange(listener: (live: Live) => void): () => void {
    this.#listeners.add(listener);
    return () => {
      this.#listeners.delete(listener);
    };
  }

  get(use: LockUse, name: string): LockSummary | undefined {
    return this.#locks.get(keyOf({ use, name }));
  }

  connect(): void {
    this.#source?.close();
    const source = new EventSource(`${basePath}/api/events`);
    this.#source = source;
    source.addEventListener('snapshot', (event) => this.#onSnapshot(JSON.parse(event.data)));
    source.addEventListener('delta', (event) => this.#onDelta(JSON.parse(event.data)));
    source.addEventListener('failed', (event) => this.#onFailed(JSON.parse(event.data)));
    source.onopen = () => this.#endBrokenTimer();
    source.onerror = () => this.#onBroken(source);
    if (this.current.session === null) void this.#readSession();
  }

  /** Ends the stream while nobody looks, and opens it again when somebody does. */
  followVisibility(): void {
    document.addEventListener('visibilitychange', () => {
      clearTimeout(this.#hiddenTimer);
      if (!document.hidden) {
        if (this.#source === undefined) this.connect();
        return;
      }
      this.#hiddenTimer = setTimeout(() => {
        this.#source?.close();
        this.#source = undefined;
        this.#endBrokenTimer();
      }, HIDDEN_MS);
    });
  }

  async #readSession(): Promise<void> {
    try {
      this.#publish({ session: await getJson<SessionInfo>('api/session') });
    } catch (error) {
      this.#onRefused(error);
    }
  }

  #onRefused(error: unknown): void {
    const status = error instanceof RequestFailure ? error.status : 0;
    if (status === 401 || status === 403) this.#publish({ status: 'denied', session: null });
  }

  #onSnapshot(event: SnapshotEvent): void {
    syncClock(event.takenAtMs);
    if (event.part === 0) this.#incoming = new Map();
    for (const lock of event.locks) this.#incoming.set(keyOf(lock), lock);
    if (event.part + 1 < event.parts) return;
    this.#locks = this.#incoming;
    this.#incoming = new Map();
    this.#onSample(event, true);
  }

  #onDelta(event: DeltaEvent): void {
    syncClock(event.takenAtMs);
    for (const lock of event.removed) this.#locks.delete(keyOf(lock));
    for (const lock of event.changed) this.#locks.set(keyOf(lock), lock);
    this.#onSample(event, event.changed.length + event.removed.length > 0);
  }

  #onSample({ total, isTruncated, intervalMs }: DeltaEvent | SnapshotEvent, isChanged: boolean): void {
    this.#retryMs = RETRY_MIN_MS;
    this.#endBrokenTimer();
    this.#areLocksNew ||= isChanged;
    this.#publish({ status: 'live', total, isTruncated, intervalMs });
    if (this.current.session === null) void this.#readSession();
  }

  #onFailed(event: FailedEvent): void {
    this.#endBrokenTimer();
    this.#publish({ status: 'store-failed', intervalMs: event.intervalMs });
  }

  /** The browser reconnects by itself after a broken connection, but never after a refusal. */
  #onBroken(source: EventSource): void {
    if (source !== this.#source) return;
    this.#brokenTimer ??= setTimeout(() => {
      if (this.current.status !== 'denied') this.#publish({ status: 'reconnecting' });
    }, BROKEN_MS);
    if (source.readyState !== EventSource.CLOSED) return;
    void this.#readSession();
    setTimeout(() => {
      if (source === this.#source) this.connect();
    }, this.#retryMs);
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_MAX_MS);
  }

  #endBrokenTimer(): void {
    clearTimeout(this.#brokenTimer);
    this.#brokenTimer = undefined;
  }

  /** Listeners hear of many events at once, with the next frame. */
  #publish(change: Partial<Live>): void {
    this.current = { ...this.current, ...change };
    if (this.#isPublishing) return;
    this.#isPublishing = true;
    const publish = () => {
      this.#isPublishing = false;
      if (this.#areLocksNew) this.current = { ...this.current, locks: [...this.#locks.values()] };
      this.#areLocksNew = false;
      for (const listener of this.#listeners) listener(this.current);
    };
    if (document.hidden) setTimeout(publish);
    else requestAnimationFrame(publish);
  }
}
