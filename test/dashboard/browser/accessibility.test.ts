import type { ServerResponse } from 'node:http';
import axe from 'axe-core';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../../src/index.ts';
import { schedule } from '../../../src/schedule/index.ts';
import { openPage } from '../../support/dashboard/browser.ts';
import { type PageWorld, startPageWorld, waitFor } from '../../support/dashboard/page-world.ts';
import { serveDashboard } from '../../support/dashboard/served-dashboard.ts';
import { eventually } from '../../support/waiting/eventually.ts';

let world: PageWorld;

beforeAll(async () => {
  const store = memoryStore();
  world = await startPageWorld(() => store);
  const web = world.of('web-1:10:a');
  await web.mutex('order:1').acquire({ metadata: { user: 'u-7' } });
  for (const n of [2, 3, 4]) await web.mutex(`order:${n}`).acquire();
  await world.of('web-2:11:b').semaphore('partner-api', { permits: 3 }).acquire();
  await world.locks.election('leader:billing').start();
  await world.locks.withLock('order:9', async () => {});
  for (const owner of ['web-2:11:b', 'web-3:12:c']) waitFor(world.of(owner), 'order:1');
  await schedule(web, 'nightly', '0 3 * * *', () => {}).runNow();
  schedule(web, 'import', '* * * * * *', ({ signal }) => new Promise((end) => (signal.onabort = end)));
  const { id, fence, name } = await web.mutex('order:8').acquire();
  const body = JSON.stringify({ name, id, fence: `${fence}`, confirm: name });
  const headers = { 'content-type': 'application/json' };
  await fetch(`${world.url}api/evict`, { method: 'POST', headers, body });
});
afterAll(() => world?.[Symbol.asyncDispose]());

const heading = (page: Page, name: string) => page.getByRole('heading', { level: 1, name });
const focused = (page: Page): Promise<string> =>
  page.evaluate(() => document.activeElement?.textContent?.trim() || document.activeElement?.tagName || '');

/** What axe finds, as `rule: element`. */
async function findings(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate(() => {
    const runner = (globalThis as unknown as { axe: { run(): Promise<axe.AxeResults> } }).axe;
    return runner.run();
  });
  return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.html.slice(0, 120)}`));
}

async function evictDialog(page: Page): Promise<void> {
  await page.locator('.holder').getByRole('button', { name: /Evict/ }).click();
  await page.getByRole('dialog').waitFor();
}

describe.each(['light', 'dark'] as const)('in %s', (colorScheme) => {
  it('axe finds nothing in the list, the page of a lock, the dialog and the other pages', async () => {
    await using opened = await world.open('#/locks', { colorScheme, reducedMotion: 'reduce' });
    const { page } = opened;
    await page.getByRole('link', { name: 'order:1', exact: true }).waitFor();
    expect(await findings(page)).toEqual([]);
    await page.goto(`${world.url}#/lock?name=order:1`);
    await page.locator('.timeline').waitFor();
    expect(await findings(page)).toEqual([]);
    await evictDialog(page);
    expect(await findings(page)).toEqual([]);
    await page.keyboard.press('Escape');
    for (const [title, row] of [
      ['Leaders', 'leader:billing'],
      ['Schedules', 'runs for'],
      ['Audit', 'Evicted'],
    ] as const) {
      await page.getByRole('link', { name: title }).click();
      await page.getByRole('table', { name: title }).getByText(row).first().waitFor();
      expect(await findings(page), title).toEqual([]);
    }
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const [red = 0] = background.match(/\d+/g)?.map(Number) ?? [];
    expect(red > 128).toBe(colorScheme === 'light');
  });
});

describe('by keyboard alone', () => {
  it('finds a lock, opens it, evicts its holder and comes back', async () => {
    const hold = await world.of('stuck:1:a').mutex('stuck:1').acquire({ renewEveryMs: 500 });
    await using opened = await world.open('#/locks');
    const { page } = opened;
    await page.getByRole('link', { name: 'stuck:1' }).waitFor();
    await page.keyboard.press('Tab');
    expect(await focused(page)).toBe('Skip to content');
    await page.keyboard.press('/');
    await page.keyboard.type('stuck');
    await eventually('one row', async () => (await page.locator('a.name').count()) === 1);
    for (let presses = 0; presses < 20 && (await focused(page)) !== 'stuck:1'; presses += 1)
      await page.keyboard.press('Tab');
    const outline = await page.evaluate(
      () => getComputedStyle(document.activeElement ?? document.body).outlineStyle,
    );
    expect(outline).toBe('solid');
    await page.keyboard.press('Enter');
    await page.locator('.holder').waitFor();
    const isOnEvict = async (): Promise<boolean> => (await focused(page)).startsWith('Evict');
    for (let presses = 0; presses < 20 && !(await isOnEvict()); presses += 1)
      await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor();
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await eventually('the focus comes back', isOnEvict);
    expect(hold.signal.aborted).toBe(false);
    await page.keyboard.press('Enter');
    await page.locator('dialog input:focus').waitFor();
    await page.keyboard.type('stuck:1');
    await page.keyboard.press('Enter');
    await page.getByText('Evicted.').waitFor();
    await eventually('the focus is on the button', async () => (await focused(page)) === 'Close');
    await page.keyboard.press('Enter');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByText('Nobody holds it.').waitFor();
    expect((await world.locks.inspect('stuck:1')).holders).toEqual([]);
  });

  it('moves from row to row with the arrow keys, Home and End', async () => {
    await using opened = await world.open('#/locks?search=order&sort=name&order=ascending');
    const { page } = opened;
    await page.getByRole('link', { name: 'order:1', exact: true }).focus();
    await page.keyboard.press('ArrowDown');
    await eventually('the second row', async () => (await focused(page)) === 'order:2');
    await page.keyboard.press('End');
    await eventually('the last row', async () => (await focused(page)) === 'order:4');
    await page.keyboard.press('Home');
    await eventually('the first row', async () => (await focused(page)) === 'order:1');
  });
});

describe('on a phone', () => {
  it('fits 360 pixels on every page, and in the dialog', async () => {
    const phone = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true };
    await using opened = await world.open('#/locks', phone);
    const { page } = opened;
    const width = () => page.evaluate(() => document.documentElement.scrollWidth);
    await page.getByRole('link', { name: 'order:1', exact: true }).waitFor();
    await eventually('the queue', async () =>
      (await page.locator('table.locks').innerText()).includes('2 waiters'),
    );
    expect(await width()).toBe(360);
    await page.getByRole('link', { name: 'order:1', exact: true }).tap();
    await page.locator('.timeline').waitFor();
    expect(await width()).toBe(360);
    await evictDialog(page);
    const box = await page.getByRole('dialog').boundingBox();
    expect(box?.width).toBeLessThanOrEqual(360);
    await page.getByRole('button', { name: 'Cancel' }).tap();
    for (const title of ['Leaders', 'Schedules', 'Audit']) {
      await page.getByRole('link', { name: title }).tap();
      await heading(page, title).waitFor();
      expect(await width()).toBe(360);
    }
  });
});

describe('less motion', () => {
  it('is kept where the viewer asks for it', async () => {
    await using opened = await world.open('#/locks', { reducedMotion: 'reduce' });
    const bar = opened.page.locator('.lease-bar i').first();
    await bar.waitFor({ state: 'attached' });
    expect(await bar.evaluate((element) => getComputedStyle(element).transitionDuration)).toBe('0s');
  });
});

describe('a stream that ends as planned', () => {
  it('is opened again without a word about it', async () => {
    const locks = createLocks(memoryStore());
    await locks.mutex('kept:1').acquire();
    let streams: ServerResponse[] = [];
    await using served = await serveDashboard(locks, {
      access: () => 'operate',
      onRequest: (request, response) => {
        if (request.url?.startsWith('/api/events')) streams.push(response);
      },
    });
    await using opened = await openPage(world.browser, served.url);
    const { page } = opened;
    await page.getByText('Live', { exact: true }).waitFor();
    await page.evaluate(() => {
      const said: string[] = [];
      Object.assign(globalThis, { said });
      new MutationObserver(() => said.push(document.querySelector('.connection')?.textContent ?? '')).observe(
        document.body,
        { childList: true, subtree: true, characterData: true },
      );
    });
    const reopened = async (lock: string): Promise<string[]> => {
      const [first] = streams;
      streams = [];
      first?.end();
      await eventually('another stream', () => streams.length === 1);
      await locks.mutex(lock).acquire();
      await page.getByRole('link', { name: lock }).waitFor();
      await page.getByText('Live', { exact: true }).waitFor();
      const said = await page.evaluate(() => (globalThis as unknown as { said: string[] }).said.splice(0));
      return said.filter((each) => each !== 'Live');
    };
    // A stream that a stalled machine opens late is worth a word. One that is opened at once is not.
    let words = await reopened('later:1');
    for (let tries = 2; tries <= 5 && words.length > 0; tries += 1) words = await reopened(`later:${tries}`);
    expect(words).toEqual([]);
    await locks.close({ drainMs: 0 });
  });
});

describe('a tab that is hidden', () => {
  it('has no stream, and is up to date when it is shown again', async () => {
    const locks = createLocks(memoryStore());
    const streams = new Set<ServerResponse>();
    await using served = await serveDashboard(locks, {
      access: () => 'operate',
      onRequest: (request, response) => {
        if (!request.url?.startsWith('/api/events')) return;
        streams.add(response);
        response.once('close', () => streams.delete(response));
      },
    });
    await using opened = await openPage(world.browser, served.url);
    const { page } = opened;
    await page.getByText('Live', { exact: true }).waitFor();
    expect(streams.size).toBe(1);
    const show = (hidden: boolean): Promise<void> =>
      page.evaluate((isHidden) => {
        Object.defineProperty(document, 'hidden', { configurable: true, get: () => isHidden });
        document.dispatchEvent(new Event('visibilitychange'));
      }, hidden);
    await show(true);
    await eventually('no stream', () => streams.size === 0, 30_000);
    await locks.mutex('meanwhile:1').acquire();
    await show(false);
    await page.getByRole('link', { name: 'meanwhile:1' }).waitFor();
    expect(streams.size).toBe(1);
    await locks.close({ drainMs: 0 });
  });
});

describe('a server that goes away', () => {
  it('is said, keeps what was shown, and is live again when the server comes back', async () => {
    const locks = createLocks(memoryStore());
    await locks.mutex('kept:1').acquire();
    const first = await serveDashboard(locks);
    await using opened = await openPage(world.browser, first.url);
    const { page } = opened;
    await page.getByText('Live', { exact: true }).waitFor();
    await first[Symbol.asyncDispose]();
    await page.getByText('The connection to the dashboard is interrupted.').waitFor();
    expect(await page.getByRole('link', { name: 'kept:1' }).count()).toBe(1);
    await using _second = await serveDashboard(locks, { access: () => 'operate' }, first.port);
    await page.getByText('Live', { exact: true }).waitFor();
    await locks.close({ drainMs: 0 });
  });
});
