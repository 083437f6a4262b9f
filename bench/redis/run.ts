// What Redis locks cost, against the bare client and against peers, all in one run. Exits with 1 when a target is missed.
import { startRedis } from '../../test/support/servers/redis.ts';
import { cluster } from './cluster.ts';
import { handover } from './handover.ts';
import { many } from './many.ts';
import { misses } from './measure.ts';
import { oneAtATime } from './one-at-a-time.ts';
import { redlock } from './redlock.ts';
import { fiftyWaiters, longLine } from './waiting.ts';

const PARTS: Readonly<Record<string, (url: string) => Promise<void>>> = {
  one: oneAtATime,
  hundred: (url) => many(url, 100, 1.5),
  thousand: (url) => many(url, 1_000, 2),
  handover1: (url) => handover(url, 1),
  handover6: (url) => handover(url, 6),
  handover20: (url) => handover(url, 20),
  fifty: fiftyWaiters,
  line: longLine,
  redlock,
  cluster,
};

const wanted = process.argv.slice(2);
const server = await startRedis();
try {
  for (const [name, run] of Object.entries(PARTS)) {
    if (wanted.length > 0 && !wanted.includes(name)) continue;
    console.log(`\n${name}`);
    await run(server.url);
  }
} finally {
  await server.stop();
}
process.exitCode = misses() === 0 ? 0 : 1;
