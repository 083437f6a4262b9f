// A nightly report, in a service of several instances: each has the schedule, one of them makes the
// report. Run it twice: REDIS_URL=redis://localhost:6379 node --import tsx examples/nightly-schedule.ts
import { openLocks } from 'holdfast';
import { schedule } from 'holdfast/schedule';

const locks = await openLocks(process.env.REDIS_URL ?? 'redis://localhost:6379');

const nightly = schedule(
  locks,
  'report:nightly',
  process.env.REPORT_CRON ?? '30 2 * * *',
  async ({ slot, signal }) => {
    signal.throwIfAborted(); // the hold is lost, or the schedule is stopped
    console.log(`report of ${slot.toISOString()}`);
  },
  { timeZone: 'Europe/Berlin', missed: 'once', maxLateMs: 6 * 3_600_000 },
);

process.once('SIGTERM', async () => {
  await nightly.stop(); // waits for the run in progress
  await locks.close();
});
console.log(`next report at ${nightly.next?.toISOString()}`);
