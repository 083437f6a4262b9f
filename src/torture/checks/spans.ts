import type { History, HistoryEvent, Note, RunNote } from '../history.ts';

/** A hold, for as long as its process trusted it. */
export interface HoldSpan {
  readonly process: number;
  readonly lock: string;
  readonly fence: bigint | null;
  /** The permits of a hold that is not exclusive. */
  readonly weight: number | null;
  readonly invokedAt: number;
  readonly from: number;
  /** The last moment at which the process is known to have trusted it. */
  to: number;
  end: 'open' | 'release' | 'lost';
  /** When the release was confirmed. */
  releasedAt: number | null;
}

/** A call of `acquire`, until it ended with any result. */
export interface WaitSpan {
  readonly process: number;
  readonly lock: string;
  readonly from: number;
  to: number;
  result: 'ok' | 'fail' | 'info' | 'open';
}

/** A time without faults. */
export interface QuietPeriod {
  readonly from: number;
  readonly to: number;
  readonly lagMs: number;
}

/** A history as intervals. */
export class Spans {
  readonly history: History;
  readonly holds: HoldSpan[] = [];
  readonly waits: WaitSpan[] = [];
  readonly notes: readonly { readonly at: number; readonly lock: string; readonly note: Note }[];
  readonly run: RunNote | null;
  readonly endAt: number;
  readonly #openHolds = new Map<string, HoldSpan>();
  readonly #openWaits = new Map<string, WaitSpan>();

  constructor(history: History) {
    this.history = [...history].sort((a, b) => a.at - b.at);
    this.endAt = this.history.at(-1)?.at ?? 0;
    this.notes = this.history.flatMap(({ at, lock, note }) =>
      note === undefined ? [] : [{ at, lock, note }],
    );
    this.run = this.#runNote();
    for (const event of this.history) this.#read(event);
    for (const hold of this.#openHolds.values()) hold.to = this.endAt;
    for (const wait of this.#openWaits.values()) wait.to = this.#exitOf(wait.process) ?? this.endAt;
  }

  get locks(): string[] {
    return [...new Set(this.holds.map(({ lock }) => lock))].sort();
  }

  holdsOf(lock: string): HoldSpan[] {
    return this.holds.filter((hold) => hold.lock === lock).sort((a, b) => a.from - b.from);
  }

  /** A history without a `run` note counts as one quiet period. */
  quietPeriods(): QuietPeriod[] {
    if (this.run === null) return [{ from: 0, to: this.endAt, lagMs: 0 }];
    const periods: QuietPeriod[] = [];
    let from: number | null = null;
    for (const { at, note } of this.notes) {
      if (note.kind !== 'quiet') continue;
      if (note.isOn) from = at;
      else if (from !== null) periods.push({ from, to: at, lagMs: note.lagMs ?? 0 });
    }
    return periods;
  }

  #runNote(): RunNote | null {
    for (const { note } of this.notes) if (note.kind === 'run') return note;
    return null;
  }

  #exitOf(process: number): number | null {
    for (const { at, note } of this.notes)
      if (note.kind === 'exit' && note.processes.includes(process)) return at;
    return null;
  }

  #read(event: HistoryEvent): void {
    if (event.note !== undefined) return;
    const key = `${event.process} ${event.lock}`;
    if (event.op === 'acquire') this.#readAcquire(key, event);
    else if (event.op === 'release' || event.op === 'lost') this.#readEnd(key, event);
  }

  #readAcquire(key: string, { at, process, lock, type, fence, value }: HistoryEvent): void {
    if (type === 'invoke') {
      const wait: WaitSpan = { process, lock, from: at, to: at, result: 'open' };
      this.waits.push(wait);
      this.#openWaits.set(key, wait);
      return;
    }
    const wait = this.#openWaits.get(key);
    this.#openWaits.delete(key);
    if (wait !== undefined) Object.assign(wait, { to: at, result: type });
    if (type !== 'ok') return;
    const hold: HoldSpan = {
      process,
      lock,
      fence: fence !== undefined && /^-?\d+$/.test(fence) ? BigInt(fence) : null,
      weight: value ?? null,
      invokedAt: wait?.from ?? at,
      from: at,
      to: at,
      end: 'open',
      releasedAt: null,
    };
    this.holds.push(hold);
    this.#openHolds.set(key, hold);
  }

  #readEnd(key: string, { at, op, type }: HistoryEvent): void {
    const hold = this.#openHolds.get(key);
    if (hold === undefined) {
      const last = op === 'release' && type === 'ok' ? this.#lastOf(key) : undefined;
      if (last?.end === 'release') last.releasedAt ??= at;
      return;
    }
    // A release that certainly had no effect ends no hold.
    if (op === 'release' && type === 'fail') return;
    Object.assign(hold, { to: at, end: op });
    if (op === 'release' && type === 'ok') hold.releasedAt = at;
    this.#openHolds.delete(key);
    this.#ended.set(key, hold);
  }

  readonly #ended = new Map<string, HoldSpan>();

  #lastOf(key: string): HoldSpan | undefined {
    return this.#ended.get(key);
  }
}
