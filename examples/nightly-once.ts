// A nightly report that cron starts on every host: one of them makes it, and no host makes it again.
// Run: REDIS_URL=redis://localhost:6379 node --import tsx examples/nightly-once.ts ./reports
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { openLocks } from 'holdfast';

const DAY_MS = 86_400_000;
const folder = process.argv[2] ?? '.';
const day = process.argv[3] ?? new Date().toISOString().slice(0, 10);

const locks = await openLocks(process.env.REDIS_URL ?? 'redis://localhost:6379');
try {
  // The day is part of the name: `rememberMs` counts from the end of a run, which is later each night.
  const outcome = await locks.once(
    `report:${day}`,
    async (hold) => {
      const text = `Report of ${day}, run ${hold.fence}\n`;
      await writeFile(join(folder, `report-${day}.txt`), text, { signal: hold.signal });
    },
    { rememberMs: 7 * DAY_MS },
  );
  console.log(outcome.ran ? 'made' : outcome.why);
} finally {
  await locks.close();
}
