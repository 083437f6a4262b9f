import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.ts';
import type { OpenPage } from '../../support/dashboard/browser.ts';
import { type PageWorld, startPageWorld, waitFor } from '../../support/dashboard/page-world.ts';
import { eventually } from '../../support/waiting/eventually.ts';

let world: PageWorld;
let opened: OpenPage;
let page: Page;
let orderHold: Hold;

beforeAll(async () => {
  world = await startPageWorld();
  const web = world.of('web-1:10:a');
  orderHold = await web.mutex('order:1').acquire({ metadata: { user: 'u-7' } });
  await world.of('web-2:11:b').mutex('cart:2').acquire();
  await web.readWriteLock('catalogue').read.acquire();
  await web.semaphore('partner-api', { permits: 3 }).acquire();
  await web.once('welcome:u-7', () => 'sent');
  for (const owner of ['web-2:11:b', 'web-3:12:c', 'web-4:13:d']) {
    waitFor(world.of(owner), 'order:1');
    await eventually('the waiter', async () =>
      (await world.locks.inspect('order:1')).waiters.some((claim) => claim.owner === owner),
    );
  }
  opened = await world.open('#/locks');
  page = opened.page;
  await page.getByRole('link', { name: 'order:1' }).waitFor();
});
afterAll(async () => {
  await opened?.[Symbol.asyncDispose]();
  await world?.[Symbol.asyncDispose]();
});

const row = (name: string) =>
  page.locator('table.locks tbody tr', { has: page.getByRole('link', { name, exact: true }) });
const names = (): Promise<string[]> => page.locator('table.locks tbody a.name').allTextContents();
const shows = (what: string, expected: readonly string[], isSorted = false): Promise<void> =>
  eventually(`${what}: ${expected}`, async () => {
    const found = await names();
    return JSON.stringify(isSorted ? found.sort() : found) === JSON.stringify(expected);
  });

describe('the list of locks', () => {
  it('shows use, kind, holder, fence, metadata, age, lease and queue of every lock', async () => {
    const { holders } = await world.locks.inspect('order:1');
    await eventually('the queue', async () => (await row('order:1').innerText()).includes('\t3'));
    const text = await row('order:1').innerText();
    expect(text).toContain('Lock · Exclusive');
    expect(text).toContain('Contended');
    expect(text).toContain('web-1:10:a');
    const fence = `${holders[0]?.fence}`;
    expect(text).toContain(`fence …${fence.slice(-6)}`);
    expect(await row('order:1').getByTitle(`fence ${fence}`).count()).toBe(1);
    expect(text).toContain('user=u-7');
    expect(text).toMatch(/\t\d+ s\t/);
    expect(await row('catalogue').innerText()).toContain('Shared');
    expect(await row('partner-api').innerText()).toContain('3 permits');
    expect(await row('welcome:u-7').innerText()).toContain('Done, remembered');
    const left = Number(
      await row('order:1')
        .locator('.lease')
        .evaluate((e) => e.style.getPropertyValue('--left')),
    );
    expect(left).toBeGreaterThan(0);
    expect(left).toBeLessThanOrEqual(1);
    expect(await page.getByText('5 in the store').count()).toBe(1);
  });

  it('lets times tick between two samples', async () => {
    const age = row('cart:2').locator('td').nth(2);
    const before = await age.innerText();
    await eventually('another age', async () => (await age.innerText()) !== before);
  });

  it('searches names and holders', async () => {
    const search = page.getByRole('searchbox');
    await search.fill('CART');
    await shows('found by name', ['cart:2']);
    await search.fill('web-1');
    await shows('found by holder', ['catalogue', 'order:1', 'partner-api'], true);
    await search.fill('nothing like this');
    await page.getByText('No lock matches').waitFor();
    await page.getByRole('button', { name: 'Clear the filters' }).click();
    await eventually('everything', async () => (await names()).length === 5);
    await eventually('the announcement', async () =>
      (await page.getByRole('status').innerText()).includes('5 locks found'),
    );
  });

  it('filters by use, kind and state, and keeps the filters in the address', async () => {
    await page.getByLabel('Use').selectOption('once');
    await shows('once', ['welcome:u-7']);
    await eventually('the address', () => page.url().includes('use=once'));
    await page.reload();
    await shows('once, after a reload', ['welcome:u-7']);
    await page.getByLabel('Use').selectOption('');
    await page.getByLabel('Kind').selectOption('permits');
    await shows('permits', ['partner-api']);
    await page.getByLabel('Kind').selectOption('');
    await page.getByRole('button', { name: /^Contended/ }).click();
    await shows('contended', ['order:1']);
    await page.getByRole('button', { name: /^Long held/ }).click();
    await page.getByText('No lock matches').waitFor();
    await page.getByRole('button', { name: /^All/ }).click();
    await eventually('everything', async () => (await names()).length === 5);
  });

  it('sorts by a column, in both directions', async () => {
    const header = page.getByRole('columnheader', { name: 'Lock' });
    await header.getByRole('button').click();
    await shows('rising', ['cart:2', 'catalogue', 'order:1', 'partner-api', 'welcome:u-7']);
    expect(await header.getAttribute('aria-sort')).toBe('ascending');
    await header.getByRole('button').click();
    await shows('falling', ['welcome:u-7', 'partner-api', 'order:1', 'catalogue', 'cart:2']);
    await page.getByRole('columnheader', { name: 'Waiting' }).getByRole('button').click();
    await eventually('longest queue first', async () => (await names())[0] === 'order:1');
  });

  it('marks a hold with less than half of its lease left as about to expire', async () => {
    const hold = await world.of('web-2:11:b').mutex('stock:9').acquire({ ttlMs: 300_000, renew: false });
    await row('stock:9').waitFor();
    expect(await row('stock:9').innerText()).not.toContain('About to expire');
    await hold.extend(100_000);
    await eventually('the tag', async () => (await row('stock:9').innerText()).includes('About to expire'));
    await hold.release();
  });

  it('follows the store without a reload', async () => {
    const hold = await world.of('web-9:90:z').mutex('live:1').acquire();
    await row('live:1').waitFor();
    await hold.release();
    await row('live:1').waitFor({ state: 'detached' });
  });
});

describe('the page of a lock', () => {
  it('shows the waiters in order, a sampled timeline and the durations of this process', async () => {
    await world.locks.withLock('own:1', async () => {});
    const own = await world.locks.mutex('own:1').acquire();
    await row('own:1').waitFor();
    await page.getByRole('link', { name: 'own:1' }).click();
    await page.getByRole('heading', { level: 1, name: 'own:1' }).waitFor();
    await page.locator('.chart canvas').first().waitFor();
    expect(await page.locator('.chart').first().innerText()).toMatch(/Waits\s+2 waits/);
    await own.release();
    await page.goto(`${world.url}#/lock?name=order:1`);
    await page.getByRole('heading', { level: 1, name: 'order:1' }).waitFor();
    const queue = page.getByRole('table', { name: 'Queue' });
    await eventually('the queue', async () => (await queue.locator('tbody tr').count()) === 3);
    const waiting = await queue.locator('tbody td:nth-child(2)').allInnerTexts();
    expect(waiting).toEqual(['web-2:11:b', 'web-3:12:c', 'web-4:13:d']);
    expect(await page.getByText(/sampled every .* shorter holds may be missing/).count()).toBe(1);
    const bars = page.locator('.timeline li', { hasText: 'web-1:10:a' });
    await eventually('the bar of the hold', async () => {
      const box = await bars.locator('.span.held').first().boundingBox();
      return box !== null && box.width > 2;
    });
  });

  it('hands the lock to the next waiter before the eyes of the viewer', async () => {
    await orderHold.release();
    await eventually('the new holder', async () =>
      (await page.locator('.holder').innerText()).includes('web-2:11:b'),
    );
    await eventually('the shorter queue', async () =>
      (await page.locator('#queue').innerText()).includes('2 waiters'),
    );
  });

  it('has complained about nothing: no exception, no breach of its content security policy', () => {
    expect(opened.complaints).toEqual([]);
  });
});
