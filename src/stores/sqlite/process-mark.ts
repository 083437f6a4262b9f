import { randomBytes } from 'node:crypto';
import { readFileSync, readlinkSync } from 'node:fs';

/**
 * Names one user of a store so that others can tell whether its process still lives: `<pid namespace>-<pid>-<start time>-<random>`. The start time
 * guards against a pid that has gone to another process since.
 */
export function newMark(): string {
  return [pidNamespace(), process.pid, startTime(process.pid) ?? 0, randomBytes(6).toString('hex')].join('-');
}

/** True only when it is certain. A process in another container is not seen from here, and is given the benefit of the doubt. */
export function isGone(mark: string): boolean {
  const match = /^(\d+)-(\d+)-(\d+)-[0-9a-f]{12}$/.exec(mark);
  if (match === null) return false;
  const [, namespace, pid, start] = match.map(Number) as [number, number, number, number];
  if (namespace !== pidNamespace()) return false;
  if (start !== 0) return startTime(pid) !== start;
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

let namespaceSeen: number | null = null;

function pidNamespace(): number {
  namespaceSeen ??= readNamespace();
  return namespaceSeen;
}

function readNamespace(): number {
  try {
    return Number(/\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? 0);
  } catch {
    return 0;
  }
}

/** In clock ticks since boot; `null` where there is no such process, or no /proc. A zombie is as good as gone. */
function startTime(pid: number): number | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    // The command's name comes second, in brackets, and may itself hold brackets and spaces.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return fields[0] === 'Z' || fields[0] === 'X' ? null : Number(fields[19]);
  } catch {
    return null;
  }
}
