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
  const offsetMs = Number(process.hrtime.bigint()) / 1e6 - clock.monotonicMs() - namespaceOffsetMs();
  return {
    bootId: readText('/proc/sys/kernel/random/boot_id') ?? approximateBoot(clock),
    monotonicMs: () => clock.monotonicMs() + offsetMs,
    wallMs: () => clock.wallMs(),
  };
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
