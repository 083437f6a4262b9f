import { writeSync } from 'node:fs';
import { createLocks, memoryStore } from '../../../src/index.ts';
import { schedule } from '../../../src/schedule/index.ts';

/** A program that has nothing but a schedule, whose slot is far away, and stops it after a while. */
const say = (text: string): void => void writeSync(1, `${text}\n`);
const job = schedule(createLocks(memoryStore()), 'yearly', '0 0 1 1 *', () => say('ran'), {
  timeZone: 'UTC',
});
say('scheduled');
process.on('exit', (code) => say(`ended with ${code}`));
// These keep nothing alive.
setTimeout(() => say('still alive'), 300).unref();
setTimeout(() => void job.stop().then(() => say('stopped')), 500).unref();
setTimeout(() => {
  say('it did not end');
  process.exit(1);
}, 10_000).unref();
