import { Redis } from 'ioredis';
import { serveRounds } from '../shared/circle-member.ts';
import type { Contender } from '../shared/contender.ts';
import { holdfast, peers } from './contenders.ts';

/** One process of a handoff. */
const [, , url = '', name = ''] = process.argv;
const HOLD_MS = 2;
const isPolling = name !== 'BLPOP' && name !== 'holdfast';
/** For a process that polls, compiling is a small part of a handoff. */
const WARM_TURNS = isPolling ? 400 : 4_000;

/** The floor: the process that pops the only element holds. Pushing it back wakes the longest waiter. */
function blockingPop(): Contender {
  const client = new Redis(url);
  return {
    name: 'BLPOP',
    async acquire(lock) {
      await client.blpop(lock, 0);
      return () => pusher.rpush(lock, '1');
    },
    close: () => {
      client.disconnect();
      pusher.disconnect();
    },
  };
}
const pusher = new Redis(url, { lazyConnect: true });

/** A contender has its name only once it is made; the others are closed again. */
function named(): Contender | undefined {
  const made = [holdfast, ...peers].map((make) => make(url));
  for (const each of made) if (each.name !== name) void each.close();
  return made.find((each) => each.name === name);
}
const contender = name === 'BLPOP' ? blockingPop() : named();
if (contender === undefined) throw new Error(`no such contender: ${name}`);

/**
 * Connecting and compiling are not measured, since a service has been running for long. Two tasks pass a
 * lock of this process to each other. A contender that polls has one task: two would take minutes.
 */
async function warmUp(one: Contender): Promise<void> {
  const tasks = isPolling ? 1 : 2;
  const lock = `bench-warm-${process.pid}`;
  if (name === 'BLPOP') await pusher.rpush(lock, '1');
  const turns = async (): Promise<void> => {
    for (let turn = 0; turn < WARM_TURNS / tasks; turn += 1) await (await one.acquire(lock))();
  };
  await Promise.all(Array.from({ length: tasks }, turns));
}
await warmUp(contender);
await serveRounds(contender, `bench-handoff ${name}`, HOLD_MS);
process.exit(0);
