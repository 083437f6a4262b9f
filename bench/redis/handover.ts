import { type ChildProcess, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { alternate, p50, report } from './measure.ts';

const WORKER = fileURLToPath(new URL('./handover-worker.ts', import.meta.url));
const PEERS = [
  'redlock 5',
  '@sesamecare-oss/redlock',
  'redis-semaphore',
  'redlock-universal',
  '@verrou/core',
];
const ROUNDS = 9;
/** Of each process, over all rounds. */
const TURNS_MIN = 300;

interface Hold {
  readonly worker: number;
  readonly asked: number;
  readonly begun: number;
  readonly ended: number;
}

/** Processes that pass one lock around. They stay up from round to round: started anew each time, some get a slow core, or a slow moment to compile in. */
class Circle {
  readonly #children: ChildProcess[];
  readonly #lines: AsyncIterator<string>[];

  private constructor(children: ChildProcess[]) {
    this.#children = children;
    this.#lines = children.map((child) =>
      createInterface({ input: child.stdout as Readable })[Symbol.asyncIterator](),
    );
  }

  static async start(url: string, name: string, workers: number): Promise<Circle> {
    const circle = new Circle(
      Array.from({ length: workers }, () =>
        spawn(process.execPath, ['--import', 'tsx', WORKER, url, name], {
          stdio: ['pipe', 'pipe', 'inherit'],
        }),
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

/** us from one process's decision to let go until another had it, where that one was waiting by then. */
function gaps(holds: readonly Hold[]): number[] {
  const result: number[] = [];
  for (let n = 1; n < holds.length; n += 1) {
    const [before, after] = [holds[n - 1], holds[n]];
    if (before !== undefined && after !== undefined && after.asked < before.ended)
      result.push(after.begun - before.ended);
  }
  return result;
}

/** A request needs this long to arrive at most, so who asked later than that after another must not be served before it. */
const ARRIVAL_US = 20_000;

/** How many were served before somebody who had asked well before them. */
function outOfOrder(holds: readonly Hold[]): number {
  return holds.filter((hold, n) => holds.slice(n + 1).some((later) => later.asked + ARRIVAL_US < hold.asked))
    .length;
}

interface Measured {
  readonly us: number;
  readonly disorder: number;
}

/** In alternating rounds, so that a slow moment of the machine hits all of them alike. */
async function measured(
  url: string,
  names: readonly string[],
  workers: number,
  turns: number,
): Promise<Measured[]> {
  const admin = new Redis(url);
  await admin.flushall();
  await admin.rpush('bench-handover BLPOP', '1');
  admin.disconnect();
  const circles = new Map<string, Circle>();
  for (const name of names) circles.set(name, await Circle.start(url, name, workers));
  const results = await alternate(names, ROUNDS, async (name) => {
    const holds = (await circles.get(name)?.round(Math.ceil(turns / ROUNDS))) ?? [];
    return [p50(gaps(holds)), outOfOrder(holds)];
  });
  for (const circle of circles.values()) circle.stop();
  return names.map((name) => {
    const rounds = results.get(name) ?? [];
    return {
      us: p50(rounds.map(([us = Number.NaN]) => us)),
      disorder: rounds.reduce((sum, [, disorder = 0]) => sum + disorder, 0),
    };
  });
}

/** One process passes a lock to the next while so many wait. */
export async function handover(url: string, waiters: number): Promise<void> {
  const workers = waiters + 1;
  const turns = Math.max(Math.ceil(900 / workers), TURNS_MIN);
  const [floor, own] = (await measured(url, ['BLPOP', 'holdfast'], workers, turns)) as [Measured, Measured];
  console.log(`      ${waiters} waiting: BLPOP ${floor.us.toFixed(0)} us, holdfast ${own.us.toFixed(0)} us`);
  report(`hand-over with ${waiters} waiting, to a bare BLPOP`, own.us / floor.us, { atMost: 2 });
  report(`hand-overs out of order with ${waiters} waiting`, own.disorder, { atMost: 0 });
  const others = await measured(url, PEERS, workers, Math.max(Math.ceil(turns / 10), 18));
  others.forEach(({ us }, n) => {
    console.log(`      ${waiters} waiting: ${PEERS[n]} ${us.toFixed(0)} us`);
  });
  report(`the best peer with ${waiters} waiting, to us`, Math.min(...others.map(({ us }) => us)) / own.us, {
    atLeast: waiters === 1 ? 4 : 1,
  });
}
