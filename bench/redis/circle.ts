import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

/** When a process asked for the lock, began to hold it and began to release it: µs of the wall clock. */
export interface Hold {
  readonly worker: number;
  readonly asked: number;
  readonly begun: number;
  readonly ended: number;
}

/**
 * Processes that pass one lock around. They keep running from round to round: of processes that are
 * started for each round, some would get a slow core or a slow moment to compile in.
 */
export class Circle {
  readonly #children: ChildProcess[];
  readonly #lines: AsyncIterator<string>[];

  private constructor(children: ChildProcess[]) {
    this.#children = children;
    this.#lines = children.map((child) =>
      createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator](),
    );
  }

  /** `worker`: a script that prints a line when it is ready, and one for each line of its input. */
  static async start(worker: string, args: readonly string[], workers: number): Promise<Circle> {
    const loader = worker.endsWith('.ts') ? ['--import', 'tsx'] : [];
    const circle = new Circle(
      Array.from({ length: workers }, () =>
        spawn(process.execPath, [...loader, worker, ...args], { stdio: ['pipe', 'pipe', 'inherit'] }),
      ),
    );
    for (const line of circle.#lines) await line.next();
    return circle;
  }

  /** Every hold of theirs, in order. */
  async round(turns: number): Promise<Hold[]> {
    for (const child of this.#children) child.stdin?.write(`${turns}\n`);
    const holds: Hold[] = [];
    for (const [worker, line] of this.#lines.entries()) {
      const { value } = await line.next();
      for (const [asked, begun, ended] of JSON.parse(String(value)) as Array<[number, number, number]>)
        holds.push({ worker, asked, begun, ended });
    }
    return holds.sort((a, b) => a.begun - b.begun);
  }

  stop(): void {
    for (const child of this.#children) child.kill();
  }
}

/** µs from a release until the next hold, where the next holder was waiting at the release. */
export function gaps(holds: readonly Hold[]): number[] {
  const result: number[] = [];
  for (let n = 1; n < holds.length; n += 1) {
    const [before, after] = [holds[n - 1], holds[n]];
    if (before !== undefined && after !== undefined && after.asked < before.ended)
      result.push(after.begun - before.ended);
  }
  return result;
}
