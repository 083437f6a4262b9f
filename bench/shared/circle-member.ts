import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Contender } from './contender.ts';

const nowUs = (): number => Math.round((performance.timeOrigin + performance.now()) * 1000);

/**
 * One process of a `Circle`: acquires the lock, keeps it for a moment, releases it, and so on. After
 * each round it prints when each hold was asked for, began and ended, in µs of the wall clock, which
 * all processes share.
 */
export async function serveRounds(contender: Contender, lock: string, holdMs: number): Promise<void> {
  process.stdout.write('ready\n');
  for await (const turns of createInterface({ input: process.stdin })) {
    const holds: Array<[number, number, number]> = [];
    for (let turn = 0; turn < Number(turns); turn += 1) {
      const asked = nowUs();
      const release = await contender.acquire(lock);
      const begun = nowUs();
      await sleep(holdMs);
      const ended = nowUs();
      await release();
      holds.push([asked, begun, ended]);
    }
    process.stdout.write(`${JSON.stringify(holds)}\n`);
  }
}
