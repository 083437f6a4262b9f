import { readFileSync } from 'node:fs';
import { hostname, uptime } from 'node:os';
import { type Clock, systemClock } from '../../clock.ts';

/**
 * Time as every process of one host sees it. Leases are counted on the host's monotonic clock, which all its processes share and nobody can set; the
 * wall clock judges only what another boot has left behind.
 */
export interface Host {
  /** Tells one boot of the host from the next, when its monotonic clock has begun anew. */
  readonly bootId: string;
  /** Milliseconds of the host's monotonic clock, the same in every process. */
  monotonicMs(): number;
  wallMs(): number;
}

export function hostOf(clock: Clock): Host {
  // A clock of the caller's own is shared by whoever shares that object, so its numbers are compared as they are.
  if (clock !== systemClock) {
    return { bootId: 'own clock', monotonicMs: () => clock.monotonicMs(), wallMs: () => clock.wallMs() };
  }
  const offsetMs = bootOffsetMs(clock) - namespaceOffsetMs();
  return {
    bootId: readText('/proc/sys/kernel/random/boot_id') ?? approximateBoot(clock),
    monotonicMs: () => clock.monotonicMs() + offsetMs,
    wallMs: () => clock.wallMs(),
  };
}

/** How often the two clocks are read side by side at most, and how far apart the readings may be that are believed at once. */
const READINGS_MAX = 20;
const APART_MS = 0.1;

/**
 * What the process's clock lacks to the system's. A process that is stopped between the two readings would be behind all others by as much for ever, and its
 * leases would end for them while it still holds: so the reading that took least counts.
 */
function bootOffsetMs(clock: Clock): number {
  const system = (): number => Number(process.hrtime.bigint()) / 1e6;
  let offsetMs = 0;
  let leastMs = Number.POSITIVE_INFINITY;
  for (let reading = 0; reading < READINGS_MAX && leastMs > APART_MS; reading += 1) {
    const before = system();
    const own = clock.monotonicMs();
    const tookMs = system() - before;
    if (tookMs >= leastMs) continue;
    leastMs = tookMs;
    offsetMs = before - own;
  }
  return offsetMs;
}

/** A time namespace shifts the monotonic clock of a container; undoing that gives the host's own. */
function namespaceOffsetMs(): number {
  const match = /^monotonic\s+(-?\d+)\s+(-?\d+)/m.exec(readText('/proc/self/timens_offsets') ?? '');
  return match === null ? 0 : Number(match[1]) * 1000 + Number(match[2]) / 1e6;
}

/** Where the system has no id for a boot: its minute. Two processes that disagree on it judge each other by the wall clock, no worse. */
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
