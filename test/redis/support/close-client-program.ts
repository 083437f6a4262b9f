import { createLocks } from '../../../src/index.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { openClusterClient } from '../../support/clients/cluster-clients.ts';
import type { Library } from '../../support/clients/redis-clients.ts';
import type { RedisCluster } from '../../support/servers/redis-cluster.ts';

// Closes its Cluster client a moment after a claim was sent, each time a little later. Every claim must
// settle.
const [, , library = '', addresses = '[]'] = process.argv;
const cluster = { addresses: JSON.parse(addresses) } as RedisCluster;
const quit = async (turns: number): Promise<number> => {
  const { client, close } = await openClusterClient(library as Library, cluster);
  const locks = createLocks(redisStore(client), { ttlMs: 1_000 });
  const claims = [0, 1].map(() => locks.mutex(`quit-${turns}`).acquire({ waitMs: 300 }));
  for (let turn = 0; turn < turns; turn += 1) await (turn < 8 ? null : new Promise(setImmediate));
  close();
  return (await Promise.allSettled(claims)).length;
};
let told = 0;
for (let turns = 0; turns < 12; turns += 4)
  for (const each of await Promise.all([0, 1, 2, 3].map((more) => quit(turns + more)))) told += each;
process.stdout.write(`told of ${told}\n`);
