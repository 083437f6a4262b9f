import { setTimeout as sleep } from 'node:timers/promises';
import { advisory } from './advisory.ts';
import { holdfast } from './contenders.ts';

/**
 * One process of a hand-over: takes the lock, writes down when it had it, keeps it for a moment, gives it back, and again. Says at the end when each hold was asked
 * for, began and ended, by the wall clock in us that all processes share.
 */
const [, , url = '', rounds = '0', kind = 'lease'] = process.argv;
const HOLD_MS = 5;
const nowUs = (): number => Math.round((performance.timeOrigin + performance.now()) * 1000);

const contender = await (kind === 'advisory' ? advisory : holdfast)(url);
await (await contender.acquire(`bench-warm-${process.pid}`))();
process.stdout.write('ready\n');
await new Promise((resolve) => process.stdin.once('data', resolve));
const holds: Array<[number, number, number]> = [];
for (let round = 0; round < Number(rounds); round += 1) {
  const asked = nowUs();
  const release = await contender.acquire('bench-handover');
  const begun = nowUs();
  await sleep(HOLD_MS);
  const ended = nowUs();
  await release();
  holds.push([asked, begun, ended]);
}
process.stdout.write(`${JSON.stringify(holds)}\n`, () => process.exit(0));
