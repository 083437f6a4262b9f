import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { beforeAll, describe, expect, it } from 'vitest';
import { createLocks, type Locks } from '../../src/index.ts';
import type { Store } from '../../src/store/store.ts';
import { openEtcd } from '../../src/stores/etcd/open.ts';
import { request } from '../../src/testing/store-case.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';
import { later, until } from '../support/waiting/eventually.ts';
import { renewed } from '../support/waiting/renewed.ts';
import { type Certificates, makeCertificates, makeSigningKeys } from './support/certificates.ts';

/** Clusters with authentication. */
const atTheEnd = cleanups();
const clusters: EtcdCluster[] = [];
const dirs: string[] = [];
// Registered first, so that the clusters stop last: closing a store waits for a cluster that is
// gone.
atTheEnd(async () => {
  await Promise.all(clusters.map((cluster) => cluster.stop()));
  for (const dir of dirs) rmSync(dir, { recursive: true, force: true });
});

function scratch(): string {
  const dir = mkdtempSync(join(tmpdir(), 'holdfast-access-'));
  dirs.push(dir);
  return dir;
}

async function open(url: string): Promise<Locks> {
  const locks = createLocks(await openEtcd(url), { waitMs: 10_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

describe('a cluster with users', () => {
  let cluster: EtcdCluster;
  let url = (user: string): string => user;
  beforeAll(async () => {
    const { publicKey, privateKey } = makeSigningKeys(scratch());
    // Tokens end a second after they were issued, however often they are used.
    const token = `jwt,pub-key=${publicKey},priv-key=${privateKey},sign-method=RS256,ttl=1s`;
    cluster = await startEtcdCluster({ members: 1, args: ['--auth-token', token, '--bcrypt-cost', '4'] });
    clusters.push(cluster);
    await cluster.etcdctl('user', 'add', 'root:root');
    await cluster.etcdctl('user', 'grant-role', 'root', 'root');
    await cluster.etcdctl('role', 'add', 'locks');
    await cluster.etcdctl('role', 'grant-permission', '--prefix=true', 'locks', 'readwrite', 'holdfast/');
    await cluster.etcdctl('user', 'add', 'me:p@ss');
    await cluster.etcdctl('user', 'grant-role', 'me', 'locks');
    await cluster.etcdctl('auth', 'enable');
    url = (user) => `etcd://${user}@${cluster.addresses.join(',')}`;
  });

  it('row 54: tokens expire during a hold and during a wait, and neither is affected', async () => {
    const [first, second] = [await open(url('me:p%40ss')), await open(url('me:p%40ss'))];
    const hold = await first.mutex('tokens').acquire({ ttlMs: 4_500 });
    const waiting = later(second.mutex('tokens').acquire({ waitMs: 40_000 }));
    // Each time the token of the previous request has expired.
    for (let round = 0; round < 3; round += 1) await renewed(hold);
    expect(await hold.release()).toBe(true);
    const next = await waiting;
    await sleep(1_500);
    expect(await next.release()).toBe(true);
  });

  it('a wrong password is an error that says so and does not repeat the password', async () => {
    const locks = await open(url('me:wrong-one'));
    const failure = await locks
      .mutex('x')
      .acquire({ waitMs: 5_000 })
      .catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: 'STORE' });
    expect(String(failure)).toContain('authentication failed');
    expect(String(failure)).not.toContain('wrong-one');
  });

  it('a lock that the user may not access is refused with applied: no', async () => {
    const locks = await open(`${url('me:p%40ss')}?prefix=elsewhere/`);
    await expect(locks.mutex('x').tryAcquire()).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  });
});

describe('a cluster with users that is started again', () => {
  it('row 54: has forgotten all tokens, and a waiter is still woken', async () => {
    // A simple token is known to its member only, and only as long as that runs.
    const cluster = await startEtcdCluster({ members: 1, args: ['--bcrypt-cost', '4'] });
    clusters.push(cluster);
    await cluster.etcdctl('user', 'add', 'root:root');
    await cluster.etcdctl('user', 'grant-role', 'root', 'root');
    await cluster.etcdctl('auth', 'enable');
    const stores = await Promise.all([1, 2].map(() => openEtcd(`etcd://root:root@${cluster.addresses[0]}`)));
    const [others, store] = stores as [Store, Store];
    atTheEnd(() => Promise.all(stores.map((each) => each.close())));
    const [holder, waiter] = [request('restarted'), request('restarted', { wait: true })];
    await others.claim(holder);
    let wakeUps = 0;
    const wake = (): void => {
      wakeUps += 1;
    };
    const ask = async (): Promise<boolean> => (await store.claim(waiter, undefined, { wake })).granted;
    expect(await ask()).toBe(false);
    const [member] = cluster.members;
    member?.server.kill('SIGKILL');
    await member?.server.exited();
    await member?.server.start();
    // Whatever the restart does to leases and watches is over when no more wake-ups come.
    let quietSinceMs = performance.now();
    await until(
      'the waiter never stops being woken',
      async () => {
        const before = wakeUps;
        expect(await ask().catch(() => false)).toBe(false);
        await sleep(500);
        if (wakeUps !== before) quietSinceMs = performance.now();
        return performance.now() - quietSinceMs > 6_000;
      },
      60_000,
    );
    const before = wakeUps;
    expect(await others.release(holder)).toBe(true);
    await until('the waiter is not woken', () => wakeUps > before);
    expect(await ask()).toBe(true);
  }, 120_000);
});

describe('a cluster behind TLS', () => {
  let cluster: EtcdCluster;
  let files: Certificates;
  beforeAll(async () => {
    files = makeCertificates(scratch());
    cluster = await startEtcdCluster({ members: 1, tls: files });
    clusters.push(cluster);
  });

  it('is reached with the right certificates', async () => {
    const { ca, cert, key } = files;
    const query = new URLSearchParams({ ca, cert, key });
    const locks = await open(`etcd://${cluster.addresses.join(',')}?${query}`);
    const hold = await locks.mutex('tls').acquire();
    expect(await locks.mutex('tls').tryAcquire()).toBeNull();
    expect(await hold.release()).toBe(true);
  });

  it('is refused without a trusted certificate, and refuses clients without one', async () => {
    const { ca, cert, key, strangerCa } = files;
    const queries = [new URLSearchParams({ ca: strangerCa, cert, key }), new URLSearchParams({ ca })];
    for (const query of queries) {
      const locks = await open(`etcd://${cluster.addresses.join(',')}?${query}`);
      await expect(locks.mutex('tls').acquire({ waitMs: 1_000 })).rejects.toMatchObject({ code: 'STORE' });
    }
  });
});
