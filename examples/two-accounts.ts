// Money between two accounts that are not in one database. Both locks, or none: transfers in opposite
// directions never wait for each other for ever.
// Run: REDIS_URL=redis://localhost:6379 node --import tsx examples/two-accounts.ts 20
import { createLocks } from 'holdfast';
import { redisFenceGate } from 'holdfast/fence';
import { redisStore } from 'holdfast/redis';
import { Redis } from 'ioredis';

const client = new Redis(process.env.REDIS_URL ?? 'redis://localhost:6379');
const locks = createLocks(redisStore(client), { waitMs: 60_000 });
const gate = redisFenceGate(client);

async function transfer(from: string, to: string, amount: number): Promise<void> {
  if (from === to) throw new Error('two accounts are needed');
  await locks.all([from, to]).run(async (hold) => {
    // Each account has a fence of its own. Through the gate: from here on it refuses an earlier holder.
    const balance = async (account: string): Promise<number> =>
      Number(await gate.read(account, hold.fenceOf(account), account));
    const [giver, taker] = [await balance(from), await balance(to)];
    if (giver < amount) throw new Error(`${from} has not got ${amount}`);
    await gate.write(from, hold.fenceOf(from), { set: [from, `${giver - amount}`] });
    await gate.write(to, hold.fenceOf(to), { set: [to, `${taker + amount}`] });
  });
}

for (let n = 0; n < Number(process.argv[2] ?? 20); n += 1) {
  if (n % 2 === 0) await transfer('account:ada', 'account:bob', 5);
  else await transfer('account:bob', 'account:ada', 3);
}
await locks.close();
client.disconnect();
