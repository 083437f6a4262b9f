import { Redis } from 'ioredis';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { redisStore } from '../../../src/stores/redis/index.ts';
import { startSharedRedis } from '../../../src/torture/servers/redis.ts';
import type { Server } from '../../../src/torture/servers/server.ts';
import { type PageWorld, READ_ONLY, startPageWorld, waitFor } from '../../support/dashboard/page-world.ts';
import { eventually } from '../../support/waiting/eventually.ts';

let redis: Server;
let world: PageWorld;
const clients: Redis[] = [];

beforeAll(async () => {
  redis = await startSharedRedis();
  const prefix = `page-${process.pid}-${performance.now()}:`;
  world = await startPageWorld(() => {
    const client = new Redis(redis.url);
    clients.push(client);
    return redisStore(client, { prefix });
  });
});
afterAll(async () => {
  await world?.[Symbol.asyncDispose]();
  for (const client of clients) client.disconnect();
  await redis?.[Symbol.asyncDispose]();
});

const lockHash = (name: string): string => `#/lock?name=${encodeURIComponent(name)}`;
const dialogOf = (page: Page) => page.getByRole('dialog');
const confirmIn = (page: Page) => page.getByLabel('Type the name of the lock to confirm');
const evictIn = (page: Page) => dialogOf(page).getByRole('button', { name: 'Evict this claim' });

async function queueUp(owner: string, name: string): Promise<void> {
  waitFor(world.of(owner), name);
  await eventually('the waiter', async () =>
    (await world.locks.inspect(name)).waiters.some((claim) => claim.owner === owner),
  );
}

describe('evicting', () => {
  it('takes exactly the claim that was shown, after the name was typed, and says who holds now', async () => {
    const hold = await world
      .of('stuck:1:a')
      .mutex('job:stuck')
      .acquire({ renewEveryMs: 500, metadata: { step: 'upload' } });
    await queueUp('next:2:b', 'job:stuck');
    await using opened = await world.open(lockHash('job:stuck'));
    const { page } = opened;
    await page.locator('.holder').getByRole('button', { name: /Evict/ }).click();
    const text = await dialogOf(page).innerText();
    for (const part of [hold.id, 'stuck:1:a', `${hold.fence}`, 'upload', 'job:stuck'])
      expect(text).toContain(part);
    expect(await evictIn(page).isDisabled()).toBe(true);
    await confirmIn(page).fill('job:stuc');
    expect(await evictIn(page).isDisabled()).toBe(true);
    await confirmIn(page).fill('job:stuck');
    await evictIn(page).click();
    const said = dialogOf(page).getByRole('alert');
    await said.waitFor();
    expect(await said.innerText()).toContain('Evicted.');
    await eventually('the owner hears of it', () => hold.signal.aborted);
    const [now] = (await world.locks.inspect('job:stuck')).holders;
    expect(now?.owner).toBe('next:2:b');
    await page.getByRole('button', { name: 'Close' }).click();
    await dialogOf(page).waitFor({ state: 'detached' });
    await eventually('the next holder', async () =>
      (await page.locator('.holder').innerText()).includes('next:2:b'),
    );
    await page.getByRole('link', { name: 'Audit' }).click();
    const entry = page.getByRole('table', { name: 'Audit' }).locator('tbody tr').first();
    await entry.waitFor();
    expect(await entry.innerText()).toMatch(/ada[\s\S]*job:stuck[\s\S]*stuck:1:a[\s\S]*Evicted/);
  });

  it('leaves a newer claim alone when the one that was shown is gone', async () => {
    const hold = await world.of('old:1:a').mutex('job:stale').acquire();
    await using opened = await world.open(lockHash('job:stale'));
    const { page } = opened;
    await page.locator('.holder').getByRole('button', { name: /Evict/ }).click();
    await hold.release();
    const newer = await world.of('new:2:b').mutex('job:stale').acquire();
    await confirmIn(page).fill('job:stale');
    await evictIn(page).click();
    const said = dialogOf(page).getByRole('alert');
    await said.waitFor();
    expect(await said.innerText()).toContain('Already gone. Nothing was taken away.');
    expect(await said.innerText()).toContain(`Now held by new:2:b, fence ${newer.fence}.`);
    expect(newer.signal.aborted).toBe(false);
    expect((await world.locks.inspect('job:stale')).holders[0]?.id).toBe(newer.id);
    await newer.release();
  });

  it('takes a waiter out of the queue, and leaves the holder alone', async () => {
    const hold = await world.of('holder:1:a').mutex('job:queue').acquire();
    await queueUp('first:2:b', 'job:queue');
    await queueUp('second:3:c', 'job:queue');
    await using opened = await world.open(lockHash('job:queue'));
    const { page } = opened;
    const rows = page.getByRole('table', { name: 'Queue' }).locator('tbody tr');
    await rows.filter({ hasText: 'first:2:b' }).getByRole('button', { name: /Evict/ }).click();
    expect(await dialogOf(page).innerText()).toContain('Evict this waiter?');
    await confirmIn(page).fill('job:queue');
    await evictIn(page).click();
    await dialogOf(page).getByRole('alert').waitFor();
    expect(await dialogOf(page).getByRole('alert').innerText()).toContain('Evicted.');
    expect((await world.locks.inspect('job:queue')).holders[0]?.id).toBe(hold.id);
    await hold.release();
  });

  it('is not offered to a viewer who may only look, and is refused by the server', async () => {
    const hold = await world.of('safe:1:a').mutex('job:safe').acquire();
    await using opened = await world.open(lockHash('job:safe'), READ_ONLY);
    const { page } = opened;
    await page.locator('.holder').waitFor();
    await page.getByText('Read only').waitFor();
    expect(await page.getByRole('button', { name: /Evict/ }).count()).toBe(0);
    const body = { name: 'job:safe', id: hold.id, fence: `${hold.fence}`, confirm: 'job:safe' };
    const status = await page.evaluate(async (sent) => {
      const headers = { 'content-type': 'application/json' };
      return (await fetch('api/evict', { method: 'POST', headers, body: JSON.stringify(sent) })).status;
    }, body);
    expect(status).toBe(403);
    expect((await world.locks.inspect('job:safe')).holders[0]?.id).toBe(hold.id);
    await hold.release();
  });
});
