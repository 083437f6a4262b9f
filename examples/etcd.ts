// A leader among several processes, with etcd. Start it two or three times: node --import tsx
// examples/etcd.ts 127.0.0.1:2379
import { setTimeout as sleep } from 'node:timers/promises';
import { Etcd3 } from 'etcd3';
import { createLocks, type Hold } from 'holdfast';
import { etcdStore } from 'holdfast/etcd';

const members = process.argv.slice(2);
const client = new Etcd3({ hosts: members.length > 0 ? members : ['127.0.0.1:2379'] });
// Much longer than an election inside etcd, so that the loss of a member costs no term.
const locks = createLocks(etcdStore(client), { ttlMs: 10_000, owner: `example:${process.pid}` });

/**
 * Works until the term is over. What is written elsewhere should carry `term.fence`, so that a
 * leader of the past is refused.
 */
async function lead(term: Hold): Promise<void> {
  console.log(`term ${term.fence} is mine`);
  for (let beat = 1; beat <= 5 && !term.signal.aborted; beat += 1) {
    term.assertHeld();
    console.log(`term ${term.fence}, beat ${beat}`);
    await sleep(1_000);
  }
}

const controller = new AbortController();
process.once('SIGINT', () => controller.abort(new Error('interrupted')));
try {
  // Resigns when the function returns; stands again after a lost term.
  await locks.election('example').lead(lead, { signal: controller.signal });
} catch (error) {
  if (!controller.signal.aborted) throw error;
} finally {
  await locks.close();
  client.close();
}
