// One leader among several instances, which writes a heartbeat. Run it two or three times:
// REDIS_URL=redis://localhost:6379 POD_NAME=a node --import tsx examples/leader.ts
import { setTimeout as sleep } from 'node:timers/promises';
import { createLocks, type Hold } from 'holdfast';
import { redisFenceGate } from 'holdfast/fence';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';

const owner = process.env.POD_NAME ?? `leader:${process.pid}`; // shown to people who ask for the leader
const client = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const locks = createLocks(redisStore(client), { owner, ttlMs: Number(process.env.TTL_MS ?? 10_000) });
const gate = redisFenceGate(client);

/** The work of the leader. The fence refuses what a leader of the past still has to say. */
async function lead(term: Hold): Promise<void> {
  while (!term.signal.aborted) {
    const args = [`${owner} ${term.fence}`];
    const script = "return redis.call('RPUSH', KEYS[1], ARGV[1])";
    await gate.write('heartbeats', term.fence, { script, keys: ['heartbeats'], args });
    await sleep(50);
  }
}

const candidate = locks.election('heartbeats').start({
  onElected: async (term) => {
    console.log('elected');
    await lead(term).catch((error: Error) => console.log(error.message)); // the term is lost
  },
  onLost: (reason) => console.log(`lost: ${reason.message}`),
});

// For what only the leader should do now and then: no network, the local deadline decides.
const timer = setInterval(() => console.log(candidate.isLeader ? 'leads' : 'follows'), 200);

process.once('SIGTERM', async () => {
  clearInterval(timer);
  await candidate.stop(); // aborts the signal, waits for onElected, then hands the lock to the next
  console.log('stopped');
  await locks.close();
  client.disconnect();
});
