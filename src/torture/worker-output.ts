import { writeSync } from 'node:fs';
import type { HistoryEvent, Note, Problem } from './history.ts';
import type { WorkerLine, WorkerPlan } from './worker-messages.ts';

/** The pipe to the parent process. */
const OUTPUT = 3;
const TEXT_MAX = 300;

/**
 * What a worker tells its parent: at once and in order, so that nothing is lost when it is killed.
 */
export class WorkerOutput {
  readonly #origin: bigint;

  constructor({ origin }: WorkerPlan) {
    this.#origin = BigInt(origin ?? 0);
  }

  now(): number {
    return Number(process.hrtime.bigint() - this.#origin);
  }

  event(
    process: number,
    type: HistoryEvent['type'],
    op: HistoryEvent['op'],
    lock: string,
    more: Partial<HistoryEvent> = {},
  ): void {
    this.#write({ event: { at: this.now(), process, type, op, lock, ...more } });
  }

  held(process: number, at: number): void {
    this.#write({ held: { process, at } });
  }

  note(note: Note, lock = ''): void {
    this.event(-1, 'info', 'lost', lock, { note });
  }

  problem(worker: number, what: Problem, error: unknown): void {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    this.note({ kind: 'problem', worker, what, text: text.slice(0, TEXT_MAX) });
  }

  state(worker: number): void {
    globalThis.gc?.();
    const listeners = process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
    this.note({ kind: 'state', worker, heap: process.memoryUsage().heapUsed, listeners });
  }

  #write(line: WorkerLine): void {
    writeSync(OUTPUT, `${JSON.stringify(line)}\n`);
  }
}
