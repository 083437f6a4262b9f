import { randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';

/**
 * Identifies one store of one process, so that other processes can tell whether it still runs:
 * `<pid namespace>-<pid>-<start time>-<random>`. The start time guards against a reused pid.
 */
export function newProcessTag(): string {
  return [pidNamespace(), process.pid, startTime(process.pid) ?? 0, randomBytes(6).toString('hex')].join('-');
}

/**
 * True only when it is certain. A process in another container cannot be seen, so it counts as
 * running. So does one that /proc hides (`hidepid`): the system still says that it exists.
 */
export function isGone(tag: string): boolean {
  const match = /^(\d+)-(\d+)-(\d+)-[0-9a-f]{12}$/.exec(tag);
  if (match === null) return false;
  const [, namespace, pid, start] = match.map(Number) as [number, number, number, number];
  if (namespace !== pidNamespace()) return false;
  const found = startTime(pid);
  if (found !== null) return start !== 0 && found !== start;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** 0 without /proc. */
function pidNamespace(): number {
  try {
    return Number(/\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? 0);
  } catch {
    return 0;
  }
}

/** In clock ticks since boot. `NaN` for a zombie. `null` when /proc does not tell. */
function startTime(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name comes second, in brackets, and may itself contain brackets and spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? Number.NaN : Number(fields[19]);
  } catch {
    return null;
  }
}
