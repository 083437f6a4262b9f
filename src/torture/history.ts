/**
 * One event of a run. An operation begins with `invoke` and ends with `ok` (done), `fail` (surely
 * not done) or `info` (unknown, as after an error or the death of the process).
 *
 * A hold lasts from the `ok` of its `acquire` to the `invoke` of its `release` or `lost`: the time
 * in which its process trusted it, whether or not the server agreed. A `lost` begins at the last
 * moment at which the library reported the lock as held, and ends when the process noticed the
 * loss. A `lost` without an `invoke` ends the hold at its own time.
 */
export interface HistoryEvent {
  /** Nanoseconds since the run began, by the monotonic clock of the host. */
  at: number;
  /** One task of one worker process; a replaced worker has new numbers. -1: the torture itself. */
  process: number;
  type: 'invoke' | 'ok' | 'fail' | 'info';
  op: 'acquire' | 'release' | 'lost' | 'read' | 'write';
  lock: string;
  /** The fence in decimal. On `read` and `write` the register checks it. */
  fence?: string;
  /**
   * On `read` and `write`: the value of the register. On `acquire`: the permits of a non-exclusive
   * hold.
   */
  value?: number;
  /** What the torture itself did or saw; only on events of type `info`. */
  note?: Note;
}

/** What happened in a run, by time. */
export type History = HistoryEvent[];

/** Recorded with the operations, so that a stored history can be judged like a fresh one. */
export type Note =
  | RunNote
  | { kind: 'adapter'; name: string; isFair: boolean }
  /** How many permits the lock of this event has. */
  | { kind: 'capacity'; permits: number }
  | { kind: 'fault'; fault: string }
  /**
   * A quiet period: no fault is active between `isOn: true` and `isOn: false`, except one kill at
   * the start. `lagMs`: how late timers fired in it.
   */
  | { kind: 'quiet'; isOn: boolean; lagMs?: number }
  | { kind: 'exit'; worker: number; how: string; isExpected: boolean; processes: number[] }
  | { kind: 'problem'; worker: number; what: Problem; text: string }
  | { kind: 'state'; worker: number; heap: number; listeners: number }
  /** After the run: whether a new process could acquire the lock, and how long that took. */
  | { kind: 'recovery'; isFree: boolean; tookMs: number }
  | { kind: 'keys'; count: number }
  | { kind: 'end' };

/** `start`: the adapter could not be created. That is not a violation while connections fail. */
export type Problem = 'rejection' | 'exception' | 'warning' | 'hang' | 'start';

/** The settings of the run, at its beginning. */
export interface RunNote {
  kind: 'run';
  server: string;
  seed: number;
  ttlMs: number;
  seconds: number;
  workers: number;
  faults: readonly string[];
}

/** JSON Lines, one event per line. */
export function formatHistory(history: History): string {
  return history.map((event) => `${JSON.stringify(event)}\n`).join('');
}

/** Throws a `SyntaxError` that names the line. */
export function parseHistory(text: string): History {
  return text.split('\n').flatMap((line, n) => {
    if (line.trim() === '') return [];
    try {
      return [checked(JSON.parse(line) as HistoryEvent)];
    } catch (error) {
      throw new SyntaxError(`line ${n + 1} is not an event of a history: ${(error as Error).message}`);
    }
  });
}

const TYPES: ReadonlySet<unknown> = new Set(['invoke', 'ok', 'fail', 'info']);
const OPS: ReadonlySet<unknown> = new Set(['acquire', 'release', 'lost', 'read', 'write']);

function checked(event: HistoryEvent): HistoryEvent {
  const isRight =
    typeof event === 'object' &&
    event !== null &&
    Number.isFinite(event.at) &&
    Number.isInteger(event.process) &&
    TYPES.has(event.type) &&
    OPS.has(event.op) &&
    typeof event.lock === 'string';
  if (!isRight) throw new Error('at, process, type, op and lock are needed');
  return event;
}
