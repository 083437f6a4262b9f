import { HoldfastError } from '../../errors.ts';
import type { Locks } from '../../locks.ts';
import type { Use } from '../../use.ts';
import type { LockView } from '../../view.ts';

const REST_MIN_MS = 1_000;
const REST_MAX_MS = 60_000;
/** A scan may take a fifth of the time. */
const REST_PER_SCAN = 4;
/** After a failed scan the next one is cheap, so it may follow sooner. */
const OUTAGE_REST_MS = 2_000;
/** More locks than a person can look at. The rest of them is not read. */
export const LOCKS_MAX = 10_000;

export interface Scan {
  readonly views: readonly LockView[];
  /** There are more locks than `LOCKS_MAX`. */
  readonly isTruncated: boolean;
  /** When it was complete, on the monotonic clock. */
  readonly atMs: number;
  readonly tookMs: number;
}

export interface ScanListener {
  onScan(scan: Scan): void;
  /** The scan failed. The next one is still made. */
  onOutage(error: HoldfastError): void;
}

export interface Scanned {
  readonly prefix: string;
  readonly use?: Use | undefined;
}

/** How long the store is left alone after a scan. */
export function restMs(tookMs: number): number {
  return Math.min(Math.max(tookMs * REST_PER_SCAN, REST_MIN_MS), REST_MAX_MS);
}

/** Reads the locks again and again: one scan at a time, less often when a scan takes long. */
export class Scanner {
  readonly #locks: Locks;
  readonly #scanned: Scanned;
  readonly #listener: ScanListener;
  #isStopped = false;
  #endRest: (() => void) | null = null;

  constructor(locks: Locks, scanned: Scanned, listener: ScanListener) {
    this.#locks = locks;
    this.#scanned = scanned;
    this.#listener = listener;
  }

  /** Resolves after `stop`. Rejects when the error is not that of a store that may come back. */
  async run(): Promise<void> {
    while (!this.#isStopped) await this.#rest(await this.#scan());
  }

  stop(): void {
    this.#isStopped = true;
    this.#endRest?.();
  }

  /** Scans now, unless a scan is running. */
  hurry(): void {
    this.#endRest?.();
  }

  /** Resolves to the rest that the store gets. */
  async #scan(): Promise<number> {
    const startedMs = performance.now();
    try {
      const { views, isTruncated } = await this.#read();
      const atMs = performance.now();
      const tookMs = atMs - startedMs;
      if (!this.#isStopped) this.#listener.onScan({ views, isTruncated, atMs, tookMs });
      return restMs(tookMs);
    } catch (error) {
      const isOutage = error instanceof HoldfastError && (error.code === 'STORE' || error.code === 'QUORUM');
      if (!isOutage) throw error;
      if (!this.#isStopped) this.#listener.onOutage(error);
      return OUTAGE_REST_MS;
    }
  }

  async #read(): Promise<{ views: LockView[]; isTruncated: boolean }> {
    const { prefix, use } = this.#scanned;
    const views: LockView[] = [];
    for await (const view of this.#locks.list(prefix)) {
      if (this.#isStopped) break;
      if (use !== undefined && view.use !== use) continue;
      if (views.length === LOCKS_MAX) return { views, isTruncated: true };
      views.push(view);
    }
    return { views, isTruncated: false };
  }

  async #rest(ms: number): Promise<void> {
    if (this.#isStopped) return;
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#endRest = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#endRest = null;
  }
}
