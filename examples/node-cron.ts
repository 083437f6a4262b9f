// node-cron in several instances: each fire of a distributed task runs in one of them.
// Run it twice: REDIS_URL=redis://localhost:6379 node --import tsx examples/node-cron.ts
import { type Locks, openLocks } from 'holdfast';
import cron, { type RunCoordinator } from 'node-cron';

/** The key of node-cron is the name of the task and the time of the fire: what `once` should be known by. */
function coordinatorOver(locks: Locks): RunCoordinator {
  const ends = new Map<string, () => Promise<void>>();
  return {
    shouldRun: (key) =>
      new Promise((resolve, reject) => {
        const run = locks.once(`cron:${key}`, async () => {
          // Held, and renewed, until node-cron says that the task has ended.
          await new Promise<void>((end) => {
            ends.set(key, async () => {
              end();
              await run;
            });
            resolve(true);
          });
        });
        run.then((outcome) => resolve(outcome.ran), reject);
      }),
    async onComplete(key) {
      const end = ends.get(key);
      ends.delete(key);
      await end?.();
    },
  };
}

const locks = await openLocks(process.env.REDIS_URL ?? 'redis://localhost:6379');
cron.setRunCoordinator(coordinatorOver(locks));

const task = cron.schedule(
  process.env.REPORT_CRON ?? '30 2 * * *',
  ({ date }) => console.log(`report of ${date.toISOString()}`),
  { name: 'nightly-report', distributed: true, timezone: 'Europe/Berlin' },
);
console.log('scheduled');

process.once('SIGTERM', async () => {
  await task.stop();
  await locks.close({ drainMs: 20_000 });
});
