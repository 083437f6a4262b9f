import { setTimeout as sleep } from 'node:timers/promises';
import { createCluster } from 'redis';
import { describe, expect, it, onTestFinished } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { slotOf } from '../../../src/stores/redis/cluster/slots.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { nameAt, startClusterStage } from '../../redis/support/cluster-stage.ts';
import { openClusterClient } from '../../support/clients/cluster-clients.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually } from '../../support/waiting/eventually.ts';

// Each test stops another master.
const { cluster } = await useStage(startClusterStage());

/** Until the test has finished. */
function stop(master: number): void {
  const server = cluster.servers[master];
  server?.kill('SIGSTOP');
  onTestFinished(() => server?.kill('SIGCONT'));
}

/** The replica becomes the master, without the votes of other masters. */
const replace = (master: number): Promise<unknown> =>
  cluster.admin(master + 3).call('CLUSTER', 'FAILOVER', 'TAKEOVER');

/** Names of locks in different slots that this master serves at first. */
function namesAt(master: number, count: number): string[] {
  const bySlot = new Map<number, string>();
  for (let n = 0; bySlot.size < count; n += 1) {
    const name = nameAt(master, `at ${master}, ${n},`);
    bySlot.set(slotOf(`holdfast:${name}`), name);
  }
  return [...bySlot.values()];
}

describe('row 33: a stopped master that its replica replaces', () => {
  it('is no obstacle if the client has never reached it, under node-redis', async () => {
    // The client takes it for the first of its nodes.
    stop(0);
    const rootNodes = [1, 2].map((node) => ({ url: cluster.servers[node]?.url ?? '' }));
    const client = createCluster({ rootNodes, minimizeConnections: true });
    client.on('error', () => {});
    await client.connect();
    const locks = createLocks(redisStore(client), { waitMs: 30_000 });
    onTestFinished(async () => {
      await locks.close({ drainMs: 0 });
      client.destroy();
    });
    await replace(0);
    await (await locks.mutex(nameAt(0, 'never reached')).acquire()).release();
  }, 90_000);

  it.each(LIBRARIES)(
    'keeps no command of the time before, however late it was sent, under %s',
    async (library) => {
      const master = LIBRARIES.indexOf(library) + 1;
      const { client, close } = await openClusterClient(library, cluster);
      const store = redisStore(client);
      onTestFinished(async () => {
        await store.close();
        close();
      });
      let settled = 0;
      // Without a time limit of its own, and in a slot of its own: no other command delays it.
      const claim = async (name: string): Promise<void> => {
        const request = { name, id: name, ttlMs: 60_000, wait: false, note: '', fenceAbove: 0n };
        await store.claim({ ...request, mode: { kind: 'exclusive' } }).catch((error: unknown) => {
          expect(error).toMatchObject({ code: 'STORE', applied: 'unknown' });
        });
        settled += 1;
      };
      const [first = '', ...names] = namesAt(master, 200);
      await claim(first);
      stop(master);
      settled = 0;
      // One each moment, so that the last ones are young when the failover is seen.
      const sent: Promise<void>[] = [];
      for (const name of names) {
        if (settled > 0) break;
        sent.push(claim(name));
        if (sent.length === 2) await replace(master);
        await sleep(100);
      }
      await eventually('all of them are settled', () => settled === sent.length, 30_000);
      await Promise.all(sent);
    },
    90_000,
  );
});
