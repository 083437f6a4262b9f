// A configuration of two files that must fit together: many processes re-read it, one changes it.
// Run, in one folder: node --import tsx examples/config-reload.ts read 3
// and in another terminal: node --import tsx examples/config-reload.ts write 3
import { readFile, writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { openLocks } from 'holdfast';

interface Config {
  readonly routes: number;
  readonly limits: number;
}

const locks = await openLocks('sqlite:./locks.db', { waitMs: 60_000 });
const { read, write } = locks.readWriteLock('config');

/** Any number of processes read at once; none while the files are being changed. */
async function load(): Promise<Config> {
  return await read.run(async () => ({
    routes: Number(await readFile('routes.txt', 'utf8')),
    limits: Number(await readFile('limits.txt', 'utf8')),
  }));
}

/** Alone. A writer that waits is not overtaken by readers that come after it. */
async function change(version: number): Promise<void> {
  await write.run(async (hold) => {
    await writeFile('routes.txt', `${version}`);
    await sleep(20); // stands for slow work
    hold.assertHeld();
    await writeFile('limits.txt', `${version}`);
  });
}

const [, , role, last = '1'] = process.argv;
if (role === 'write') {
  for (let version = 1; version <= Number(last); version += 1) await change(version);
} else {
  let torn = 0;
  let seen = 0;
  for (let config = await load(); config.limits < Number(last); config = await load()) {
    if (seen === 0) console.log('reading');
    if (config.routes !== config.limits) torn += 1;
    seen += 1;
  }
  console.log(JSON.stringify({ seen, torn }));
}
await locks.close();
