// What Redis locks cost, compared with the bare client and with other packages in one run. Exits with 1 if a
// target is missed.
import { startRedis } from '../../src/torture/servers/redis.ts';
import { type Parts, runParts } from '../shared/run-parts.ts';
import { cluster, packets } from './cluster.ts';
import { handoff } from './handoff.ts';
import { oneAtATime } from './latency.ts';
import { misses } from './measure.ts';
import { redlock } from './redlock.ts';
import { many } from './throughput.ts';
import { fiftyWaiters, longQueue } from './waiters.ts';

const PARTS: Parts = {
  one: oneAtATime,
  ten: (url) => many(url, 10, 0.6),
  hundred: (url) => many(url, 100, 1.5),
  thousand: (url) => many(url, 1_000, 1.75),
  handoff1: (url) => handoff(url, 1),
  handoff6: (url) => handoff(url, 6),
  handoff20: (url) => handoff(url, 20),
  fifty: fiftyWaiters,
  queue: longQueue,
  redlock,
  cluster,
  packets,
};

const server = await startRedis();
try {
  await runParts(PARTS, () => server.url);
} finally {
  await server.stop();
}
process.exitCode = misses() === 0 ? 0 : 1;
