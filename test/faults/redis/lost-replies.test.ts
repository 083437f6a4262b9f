import { setTimeout as sleep } from 'node:timers/promises';
import type { Redis } from 'ioredis';
import { afterEach, describe, expect, it, onTestFinished } from 'vitest';
import type { ClaimRequest, Store } from '../../../src/store/store.ts';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { startStage } from '../../redis/support/stage.ts';
import { LIBRARIES, openClient } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';
import { eventually, later, renewals } from '../../support/waiting/eventually.ts';

const stage = await useStage(startStage());
afterEach(() => stage.proxy.pass());

describe.each(LIBRARIES)('row 20: a lost reply under %s', (library) => {
  it('to a claim: the claim is granted, and not reported as held by another', async () => {
    const { proxy, admin } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 60_000, waitMs: 40_000 });
    await (await locks.mutex('warm').acquire()).release();
    const name = `claim-${library}`;
    proxy.drop('toClient');
    const pending = later(locks.mutex(name).acquire());
    await eventually('the claim has arrived', async () => (await admin.get(`holdfast:${name}`)) !== null);
    proxy.pass();
    const startedMs = performance.now();
    const hold = await pending;
    // Long before the lease would have expired.
    expect(performance.now() - startedMs).toBeLessThan(20_000);
    expect(await admin.get(`holdfast:${name}`)).toBe(`${hold.fence} ${hold.id}`);
    expect(await hold.release()).toBe(true);
  });

  it('to a single try: a hold or a StoreError, never null, and nothing is left behind', async () => {
    const { proxy, admin } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 60_000 });
    await (await locks.mutex('warm').acquire()).release();
    const name = `try-${library}`;
    proxy.drop('toClient');
    const pending = locks.mutex(name).tryAcquire();
    const outcome = pending.catch((error: { code: string }) => error.code);
    await eventually('the claim has arrived', async () => (await admin.get(`holdfast:${name}`)) !== null);
    proxy.pass();
    const result = await outcome;
    if (result !== 'STORE') {
      expect(result).toMatchObject({ name });
      await (await pending)?.release();
    }
    await eventually('the claim is gone', async () => (await admin.get(`holdfast:${name}`)) === null);
  });

  it('to a release: the release resolves to true', async () => {
    const { proxy, admin } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 60_000 });
    const name = `release-${library}`;
    const hold = await locks.mutex(name).acquire();
    proxy.drop('toClient');
    const pending = later(hold.release());
    await eventually('the release has arrived', async () => (await admin.get(`holdfast:${name}`)) === null);
    proxy.pass();
    expect(await pending).toBe(true);
  });

  it('to a renewal: the hold continues', async () => {
    const { proxy } = stage;
    const locks = await stage.locks(library, stage.proxyUrl, { ttlMs: 10_000, renewEveryMs: 500 });
    const hold = await locks.mutex(`renew-${library}`).acquire();
    const before = proxy.bytesToServer;
    proxy.drop('toClient');
    await eventually('a renewal was sent', () => proxy.bytesToServer > before);
    proxy.pass();
    await renewals(locks, 2);
    hold.assertHeld();
    expect(await hold.release()).toBe(true);
  });
});

describe.each(['ioredis', 'ioredis 5'] as const)(
  'row 20: a lost reply to a script that %s sends again, and the server has forgotten',
  (library) => {
    interface Subject {
      readonly store: Store;
      /** Resolves when the server has answered that it does not know the script. Later replies are held. */
      readonly refused: Promise<void>;
    }

    /** A store whose scripts the server knows. */
    async function start(): Promise<Subject> {
      const { proxy, proxyUrl } = stage;
      const { client, close } = await openClient(library, proxyUrl);
      const store = redisStore(client);
      onTestFinished(async () => {
        proxy.pass();
        await store.close();
        close();
      });
      const warm = claim('warm');
      await store.claim(warm);
      await store.release(warm);
      const subject = client as Redis;
      const call = subject.call.bind(subject) as (...args: unknown[]) => Promise<unknown>;
      const refused = new Promise<void>((resolve) => {
        subject.call = ((...args: unknown[]) => {
          const answer = call(...args);
          answer.catch((error: Error) => {
            if (!error.message.startsWith('NOSCRIPT')) return;
            proxy.holdReplies();
            resolve();
          });
          return answer;
        }) as typeof subject.call;
      });
      return { store, refused };
    }

    const claim = (name: string): ClaimRequest => ({
      name: `${name} of ${library}`,
      id: `forgotten:${process.pid}:abcd#0123456789ab.${library}`,
      mode: { kind: 'exclusive' },
      ttlMs: 60_000,
      wait: false,
      note: '',
      fenceAbove: 0n,
    });

    /** When the script has run, the server forgets it, and the connection breaks before the reply. */
    async function breakWhen(name: string, isHeld: boolean): Promise<void> {
      const { admin, proxy } = stage;
      const key = `holdfast:${name}`;
      await eventually('the script has run', async () => ((await admin.get(key)) !== null) === isHeld);
      await admin.script('FLUSH');
      proxy.pass();
    }

    it('a release rejects as unknown, and does not resolve to false', async () => {
      const { store, refused } = await start();
      const held = claim('forgotten release');
      expect(await store.claim(held)).toMatchObject({ granted: true });
      stage.proxy.drop('toClient');
      const released = later(store.release(held));
      await breakWhen(held.name, false);
      await refused;
      stage.proxy.pass();
      await expect(released).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    });

    it('a claim that is then given up rejects as unknown, and not as never made', async () => {
      const { store, refused } = await start();
      const held = claim('forgotten claim');
      const given = new AbortController();
      stage.proxy.drop('toClient');
      const claimed = later(store.claim(held, given.signal));
      await breakWhen(held.name, true);
      await refused;
      // By now it would be queued to be sent once more.
      await sleep(100);
      given.abort();
      await expect(claimed).rejects.toMatchObject({ code: 'STORE', applied: 'unknown' });
    });
  },
);
