import { setTimeout as sleep } from 'node:timers/promises';
import zookeeper from 'node-zookeeper-client';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../../src/index.ts';
import type { RawClient } from '../../../src/stores/zookeeper/client.ts';
import { zookeeperStore } from '../../../src/stores/zookeeper/index.ts';
import { startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { cleanups } from '../../support/hooks/cleanups.ts';
import { startSilentServer } from '../../support/servers/silent-server.ts';
import { type Ensemble, startEnsemble } from '../../support/servers/zookeeper.ts';
import { until } from '../../support/waiting/eventually.ts';

/** First connections of a client that come late. Nearly all of the time is spent waiting. */
const SESSION_MS = 12_000;
const CONNECTED = 3;
/** If trust were counted from the making of the store, two seconds would be left. */
const LATE_MS = 10_000;

const atTheEnd = cleanups();
let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1, maxSessionMs: SESSION_MS });
  atTheEnd(() => ensemble.stop());
});

function locksOn(client: RawClient | (() => RawClient)): Locks {
  const locks = createLocks(zookeeperStore(client), { waitMs: 40_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

/** A client that is not connected yet. It tries the addresses in this order. */
function clientOf(...addresses: string[]): RawClient {
  const options = { sessionTimeout: SESSION_MS, spinDelay: 100 };
  const client = zookeeper.createClient(addresses.join(','), options);
  const { connectionManager } = client as unknown as { connectionManager: { servers: { port: string }[] } };
  const at = ({ port }: { port: string }): number => addresses.findIndex((each) => each.endsWith(`:${port}`));
  connectionManager.servers.sort((a, b) => at(a) - at(b));
  atTheEnd(() => client.close());
  return client as unknown as RawClient;
}

describe.concurrent('the first connection to ZooKeeper', () => {
  for (const owner of ['the store', 'its caller'] as const) {
    it(`row 56: leaves a silent member, of a client that ${owner} connects`, async () => {
      await using silent = await startSilentServer();
      const client = clientOf(silent.host, ensemble.address);
      if (owner === 'its caller') client.connect();
      const acquired = locksOn(owner === 'the store' ? () => client : client)
        .mutex(`silent-${owner}`)
        .acquire({ waitMs: SESSION_MS * 2 });
      await until('not connecting', () => silent.sockets.size === 1);
      await (await acquired).release();
      expect(silent.sockets.size).toBe(0);
    });

    it(`row 56: is trusted since it began, however late, of a client that ${owner} connects`, async () => {
      const proxy = await startFaultProxy(Number(ensemble.address.split(':')[1]));
      atTheEnd(() => proxy.stop());
      const client = clientOf(`127.0.0.1:${proxy.port}`);
      const locks = locksOn(owner === 'the store' ? () => client : client);
      if (owner === 'the store') proxy.refuse();
      const acquired = locks.mutex(`late-${owner}`).acquire();
      await sleep(LATE_MS);
      if (owner === 'the store') proxy.pass();
      else client.connect();
      const hold = await acquired;
      await sleep(3_000);
      hold.assertHeld();
      expect(await hold.release()).toBe(true);
    });
  }

  it('is not waited for when the client was closed before the store was made', async () => {
    const client = ensemble.client({ sessionMs: SESSION_MS });
    await until('not connected', () => client.getState().code === CONNECTED);
    client.close();
    for (const hasEnded of [false, true]) {
      if (hasEnded) await until('still connected', () => client.getState().code !== CONNECTED);
      await expect(locksOn(client).mutex('closed-before').tryAcquire()).rejects.toMatchObject({
        code: 'STORE',
        applied: 'no',
        message: expect.stringContaining('The client has been closed'),
      });
    }
  });
});
