import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { advisory } from './advisory.ts';
import { blocking } from './blocking.ts';
import { holdfast, type MakeContender, verrou } from './contenders.ts';

/**
 * One process of the handoff benchmark: takes the lock, keeps it for a moment and releases it, again and
 * again. After each round it prints when each hold was asked for, began and ended, in µs of the wall
 * clock, which all processes share.
 */
const [, , url = '', kind = 'lease'] = process.argv;
const HOLD_MS = 5;
const nowUs = (): number => Math.round((performance.timeOrigin + performance.now()) * 1000);

const MAKE: Readonly<Record<string, MakeContender>> = { lease: holdfast, advisory, floor: blocking, verrou };
const make = MAKE[kind];
if (make === undefined) throw new Error(`no such contender: ${kind}`);
const contender = await make(url);
await (await contender.acquire(`bench-warm-${process.pid}`))();
process.stdout.write('ready\n');
for await (const turns of createInterface({ input: process.stdin })) {
  const holds: Array<[number, number, number]> = [];
  for (let turn = 0; turn < Number(turns); turn += 1) {
    const asked = nowUs();
    const release = await contender.acquire('bench-handoff');
    const begun = nowUs();
    await sleep(HOLD_MS);
    const ended = nowUs();
    await release();
    holds.push([asked, begun, ended]);
  }
  process.stdout.write(`${JSON.stringify(holds)}\n`);
}
process.exit(0);
