import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks } from 'holdfast';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';
import { report } from './measure.ts';

const statistic = async (admin: Redis, section: string, name: string): Promise<number> =>
  Number(new RegExp(`${name}:(\\d+)`).exec(await admin.info(section))?.[1]);

/** The commands a second of 50 waiters, while the lock is held for ten seconds. */
export async function fiftyWaiters(url: string): Promise<void> {
  const [admin, holder, client] = [new Redis(url), new Redis(url), new Redis(url)];
  const [a, b] = [
    createLocks(redisStore(holder)),
    createLocks(redisStore(client), { waitMs: Number.POSITIVE_INFINITY }),
  ];
  const hold = await a.mutex('bench-fifty').acquire();
  const waiters = Array.from({ length: 50 }, () => b.mutex('bench-fifty').run(() => {}));
  while ((await a.inspect('bench-fifty')).waiters.length < 50) await sleep(10);
  await sleep(200);
  const before = await statistic(admin, 'stats', 'total_commands_processed');
  await sleep(10_000);
  const commands = (await statistic(admin, 'stats', 'total_commands_processed')) - before;
  report('50 waiters: commands a second', commands / 10, { atMost: 20 });
  await hold.release();
  await Promise.all(waiters);
  await a.close();
  await b.close();
  for (const each of [admin, holder, client]) each.disconnect();
}

/** The commands of a handoff with a short and with a long queue, and the bytes of a queue position. */
export async function longQueue(url: string): Promise<void> {
  const admin = new Redis(url);
  const costs: number[] = [];
  for (const waiters of [10, 10_000]) {
    const client = new Redis(url);
    const locks = createLocks(redisStore(client), { waitMs: Number.POSITIVE_INFINITY });
    const name = `bench-queue-${waiters}`;
    const hold = await locks.mutex(name).acquire();
    const emptyBytes = await statistic(admin, 'memory', 'used_memory');
    let served = 0;
    let at10 = 0;
    const all = Array.from({ length: waiters }, () =>
      locks.mutex(name).run(async () => {
        served += 1;
        if (served === 10) at10 = await statistic(admin, 'stats', 'total_commands_processed');
      }),
    );
    while (Number(await admin.zcard(`holdfast:\u0001queue:${name}`)) < waiters) await sleep(20);
    await sleep(500);
    const bytes = (await statistic(admin, 'memory', 'used_memory')) - emptyBytes;
    if (waiters > 10) report('bytes in Redis for each of 10,000 waiters', bytes / waiters, { atMost: 400 });
    const before = await statistic(admin, 'stats', 'total_commands_processed');
    await hold.release();
    await Promise.all(all);
    costs.push((at10 - before) / 10);
    await locks.close();
    client.disconnect();
  }
  const [few = 0, many = 0] = costs;
  console.log(
    `      commands for a handoff: ${few.toFixed(1)} with 10 waiting, ${many.toFixed(1)} with 10,000`,
  );
  report('commands for a handoff, 10,000 waiting to 10', many / few, { atMost: 1.5 });
  admin.disconnect();
}
