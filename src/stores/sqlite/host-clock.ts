import { readFileSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { type Clock, systemClock } from '../../clock.ts';
import { UnsupportedError } from '../../errors.ts';

/**
 * Time as every process of one host sees it. Leases count on the host's monotonic clock, which its
 * processes share and which cannot be set. The wall clock judges only the leases of another boot.
 */
export interface Host extends Pick<Clock, 'monotonicMs' | 'wallMs'> {
  /** Tells one boot of the host from the next, when its monotonic clock has begun anew. */
  readonly bootId: string;
}

/** The current time, as the rows count it. */
export type Now = readonly [bootNumber: number, monotonicMs: number, wallMs: number];

/** When a lease that begins now ends. */
export function endOf([bootNumber, monotonicMs, wallMs]: Now, ttlMs: number): Now {
  return [bootNumber, monotonicMs + ttlMs, wallMs + ttlMs];
}

export function hostOf(clock: Clock): Host {
  const wallMs = (): number => clock.wallMs();
  // A caller's own clock is shared by the stores that were given that object.
  if (clock !== systemClock) return { bootId: 'own clock', monotonicMs: () => clock.monotonicMs(), wallMs };
  const offsetMs = namespaceOffsetMs();
  return {
    bootId: readText('/proc/sys/kernel/random/boot_id') ?? approximateBoot(clock),
    // Unlike `performance.now()`, it does not start with the process.
    monotonicMs: () => Number(process.hrtime.bigint()) / 1e6 - offsetMs,
    wallMs,
  };
}

/**
 * Throws under a runtime whose `process.hrtime` starts with the process instead of the host: processes
 * would disagree on when a lease ends, and two of them would hold the lock.
 */
export function assertHostClock(clock: Clock): void {
  const { bun, deno } = process.versions;
  if (clock !== systemClock || (bun === undefined && deno === undefined)) return;
  const runtime = bun === undefined ? 'Deno' : 'Bun';
  throw new UnsupportedError(
    `${runtime} has no clock that all processes of a host share, so a SQLite file cannot be locked safely; ` +
      'use Node.js, or another store',
  );
}

/** A time namespace shifts the monotonic clock of a container. This offset gives the host's own. */
function namespaceOffsetMs(): number {
  const match = /^monotonic\s+(-?\d+)\s+(-?\d+)/m.exec(readText('/proc/self/timens_offsets') ?? '');
  return match === null ? 0 : Number(match[1]) * 1000 + Number(match[2]) / 1e6;
}

/** Without a boot id: the minute of the boot. Processes that disagree on it use the wall clock. */
function approximateBoot(clock: Clock): string {
  return `${hostname()}@${Math.round((clock.wallMs() / 1000 - uptime()) / 60)}`;
}

function readText(path: string): string | null {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return null;
  }
}
