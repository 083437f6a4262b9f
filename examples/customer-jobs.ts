// Jobs of BullMQ: the same job is queued once, and no two jobs of one customer run at the same time.
// Run: REDIS_URL=redis://localhost:6379 node --import tsx examples/customer-jobs.ts add ada:invoice-7:5
// and, in any number of processes: node --import tsx examples/customer-jobs.ts work
import { setTimeout as sleep } from 'node:timers/promises';
import { DelayedError, type Job, Queue, Worker } from 'bullmq';
import { createLocks, type Hold } from 'holdfast';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';

interface Points {
  readonly customer: string;
  readonly invoice: string;
  readonly points: number;
}

const url = process.env.REDIS_URL ?? 'redis://localhost:6379';
// BullMQ opens connections of its own: its workers block theirs, and retry commands for ever.
const connection = { url };
const client = new Redis(url);
const locks = createLocks(redisStore(client));

/** BullMQ drops a second job with the same id while the first one waits or runs. */
async function enqueue(queue: Queue<Points>, data: Points): Promise<void> {
  await queue.add('points', data, { deduplication: { id: `${data.customer}/${data.invoice}` } });
}

/** One try: a job that waited here for its customer would occupy the worker. */
async function work(job: Job<Points>, token?: string): Promise<void> {
  const lock = locks.mutex(`customer:${job.data.customer}`);
  const outcome = await lock.tryRun((hold) => addPoints(job.data, hold));
  if (outcome.ran) return;
  await job.moveToDelayed(Date.now() + 100, token);
  throw new DelayedError();
}

/** Reads, thinks and writes: two at once for the same customer would lose the points of one. */
async function addPoints({ customer, points }: Points, hold: Hold): Promise<void> {
  const before = Number(await client.get(`points:${customer}`));
  await sleep(20, undefined, { signal: hold.signal });
  hold.assertHeld();
  await client.set(`points:${customer}`, before + points);
}

const [, , role, ...jobs] = process.argv;
if (role === 'add') {
  const queue = new Queue<Points>('points', { connection });
  for (const job of jobs) {
    const [customer = '', invoice = '', points = '0'] = job.split(':');
    await enqueue(queue, { customer, invoice, points: Number(points) });
  }
  await queue.close();
  client.disconnect();
} else {
  const worker = new Worker<Points>('points', work, { connection, concurrency: 5 });
  worker.on('error', (error) => console.error(error));
  process.once('SIGTERM', async () => {
    await worker.close(); // the running jobs end
    await locks.close();
    client.disconnect();
  });
  console.log('working');
}
