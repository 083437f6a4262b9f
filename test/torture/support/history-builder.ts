import type { History, HistoryEvent, Note } from '../../../src/torture/history.ts';

const MS = 1e6;

/** Writes a history by hand. Times are in milliseconds. */
export class HistoryBuilder {
  readonly events: History = [];

  add(
    atMs: number,
    process: number,
    type: HistoryEvent['type'],
    op: HistoryEvent['op'],
    more: Partial<HistoryEvent> = {},
  ): this {
    this.events.push({ at: atMs * MS, process, type, op, lock: 'a', ...more });
    return this;
  }

  note(atMs: number, note: Note, lock = ''): this {
    return this.add(atMs, -1, 'info', 'lost', { lock, note });
  }

  /** Begins as a run of the kit. Without it the history is that of another program. */
  run(faults: readonly string[] = [], seconds = 1): this {
    return this.note(0, { kind: 'run', server: 'redis', seed: 1, ttlMs: 1_000, seconds, workers: 2, faults });
  }

  quiet(fromMs: number, toMs: number, lagMs = 0): this {
    return this.note(fromMs, { kind: 'quiet', isOn: true }).note(toMs, { kind: 'quiet', isOn: false, lagMs });
  }

  /** Asked for at once, held from `fromMs` to `toMs`, and released. */
  hold(process: number, fromMs: number, toMs: number, more: Partial<HistoryEvent> = {}): this {
    return this.acquired(process, fromMs, fromMs, more).released(process, toMs, more);
  }

  acquired(process: number, askedMs: number, fromMs: number, more: Partial<HistoryEvent> = {}): this {
    const { fence: _, ...asked } = more;
    return this.add(askedMs, process, 'invoke', 'acquire', asked).add(fromMs, process, 'ok', 'acquire', more);
  }

  released(process: number, atMs: number, { lock = 'a' }: Partial<HistoryEvent> = {}): this {
    return this.add(atMs, process, 'invoke', 'release', { lock }).add(atMs, process, 'ok', 'release', {
      lock,
    });
  }

  /** Two processes that hold the lock in turns, `count` times, for 10 ms each; fences from 1 on. */
  turns(count: number, more: Partial<HistoryEvent> = {}, fromMs = 0): this {
    for (let n = 0; n < count; n += 1)
      this.hold(n % 2, fromMs + n * 20, fromMs + n * 20 + 10, { fence: `${n + 1}`, ...more });
    return this;
  }

  /** Reads, and writes what it read and 1. */
  change(
    process: number,
    readMs: number,
    writeMs: number,
    value: number,
    more: Partial<HistoryEvent> = {},
  ): this {
    const { type = 'ok', ...rest } = more;
    return this.add(readMs, process, 'invoke', 'read', rest)
      .add(readMs, process, 'ok', 'read', { value, ...rest })
      .add(writeMs, process, 'invoke', 'write', { value: value + 1, ...rest })
      .add(writeMs + 1, process, type, 'write', { value: value + 1, ...rest });
  }
}
