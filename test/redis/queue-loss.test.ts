import { expect, it } from 'vitest';
import { redisStore } from '../../src/stores/redis/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { openClient } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());

it('a waiter whose queue key was deleted, but not its info key, is served before later claims', async () => {
  const { client, close } = await openClient('ioredis', stage.server.url);
  const store = redisStore(client);
  const name = 'vanished';
  const claim = (id: string) => store.claim(request(name, { id, ttlMs: 30_000, wait: true }));
  const holder = async (): Promise<string | undefined> =>
    (await store.read(name)).find(({ granted }) => granted)?.id;
  expect((await claim('holder')).granted).toBe(true);
  expect((await claim('early')).granted).toBe(false);
  expect(await stage.admin.del(`holdfast:\u0001queue:${name}`)).toBe(1);
  expect(await stage.admin.hexists(`holdfast:\u0001info:${name}`, 'early')).toBe(1);
  // The waiter asks again, as every waiter does now and then.
  expect((await claim('early')).granted).toBe(false);
  for (let n = 0; n < 5; n += 1) expect((await claim(`late-${n}`)).granted).toBe(false);
  await store.release({ name, id: 'holder' });
  expect(await holder()).toBe('early');
  await store.release({ name, id: 'early' });
  expect(await holder()).toBe('late-0');
  // A waiter that does not ask again leaves nothing behind when it gives up.
  expect(await stage.admin.del(`holdfast:\u0001queue:${name}`)).toBe(1);
  for (let n = 0; n < 5; n += 1) await store.release({ name, id: `late-${n}` });
  expect((await stage.admin.keys('*')).filter((key) => key.includes(name))).toEqual([]);
  await store.close();
  close();
});
