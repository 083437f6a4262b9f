import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { memoryStore } from '../../../src/index.ts';
import { longestTaskMs } from '../../support/dashboard/longest-task.ts';
import { type PageWorld, startPageWorld, waitFor } from '../../support/dashboard/page-world.ts';
import { eventually, shortest } from '../../support/waiting/eventually.ts';

const LOCKS = 10_000;
const WAITERS = 5000;
/** No frame may take longer. */
const FRAME_MAX_MS = 100;
const SLOW_MS = 60_000;
/** Five measurements at most, on a machine that may be busy. */
const TIMEOUT_MS = 240_000;

let world: PageWorld;

beforeAll(async () => {
  const store = memoryStore();
  world = await startPageWorld(() => store);
  const options = { ttlMs: 3_600_000, renew: false };
  const web = world.of('web-1:10:a', options);
  for (let n = 0; n < LOCKS; n += 1) await web.mutex(`order:${n}`).acquire();
  for (let n = 0; n < WAITERS; n += 1) waitFor(world.of(`web-${n % 20}:1:w`, options), 'order:7');
  await eventually(
    'the queue',
    async () => (await world.locks.inspect('order:7')).waiters.length === WAITERS,
    SLOW_MS,
  );
});
afterAll(() => world?.[Symbol.asyncDispose]());

describe('10,000 locks', () => {
  it(
    'load, scroll, are searched, sorted and filtered without a frame of 100 ms',
    async () => {
      await using opened = await world.open('#/schedules');
      const { page } = opened;
      const rows = page.locator('table.locks tbody tr:not(.spacer)');
      const scrollTo = (part: number) =>
        page.evaluate(async (at) => {
          window.scrollTo(0, at * document.documentElement.scrollHeight);
          await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        }, part);
      const longest = await shortest(FRAME_MAX_MS, () =>
        longestTaskMs(page, async () => {
          await page.goto(`${world.url}?${performance.now()}#/locks`);
          await eventually(
            'all locks',
            async () => (await page.getByText('10,000 in the store').count()) === 1,
            SLOW_MS,
          );
          await rows.first().waitFor();
          for (let step = 0; step <= 10; step += 1) await scrollTo(step / 10);
          await scrollTo(0);
          await page.getByRole('columnheader', { name: 'Lock' }).getByRole('button').click();
          await page.getByRole('columnheader', { name: 'Held for' }).getByRole('button').click();
          await page.getByRole('button', { name: /^Contended/ }).click();
          await eventually('one row', async () => (await rows.count()) === 1);
          await page.getByRole('button', { name: /^All/ }).click();
          await page.getByRole('searchbox').pressSequentially('order:777');
          await eventually('the found', async () => (await rows.count()) === 11);
        }),
      );
      expect(longest).toBeLessThan(FRAME_MAX_MS);
      expect(opened.complaints).toEqual([]);
    },
    TIMEOUT_MS,
  );

  it('are in the document only as far as they are in view', async () => {
    await using opened = await world.open('#/locks?sort=name&order=ascending');
    const { page } = opened;
    const rows = page.locator('table.locks tbody tr:not(.spacer)');
    await rows.first().waitFor();
    expect(await rows.count()).toBeLessThan(80);
    expect(await page.getByRole('table', { name: 'Locks' }).getAttribute('aria-rowcount')).toBe(
      `${LOCKS + 1}`,
    );
    await page.getByRole('link', { name: 'order:0', exact: true }).focus();
    await page.keyboard.press('End');
    await eventually(
      'the last row',
      async () => (await page.evaluate(() => document.activeElement?.textContent)) === 'order:9999',
    );
  });
});

describe('5,000 waiters of one lock', () => {
  it(
    'load and scroll without a frame of 100 ms, and are loaded in parts',
    async () => {
      await using opened = await world.open('#/schedules');
      const { page } = opened;
      const rows = page.locator('.queue-table tbody tr:not(.spacer)');
      const scrollTo = (part: number) =>
        page.locator('.scroller').evaluate(async (element, at) => {
          element.scrollTop = at * element.scrollHeight;
          await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        }, part);
      const longest = await shortest(FRAME_MAX_MS, () =>
        longestTaskMs(page, async () => {
          await page.goto(`${world.url}?${performance.now()}#/lock?name=order:7`);
          await rows.first().waitFor();
          for (let step = 0; step <= 10; step += 1) await scrollTo(step / 10);
          const last = page.locator(`.queue-table tr[aria-rowindex="${WAITERS + 1}"]`);
          await eventually('the last waiter', async () => (await last.innerText()).includes(':1:w'), SLOW_MS);
        }),
      );
      expect(longest).toBeLessThan(FRAME_MAX_MS);
      expect(await rows.count()).toBeLessThan(80);
      expect(await page.getByText('5,000 waiters').count()).toBe(1);
      expect(opened.complaints).toEqual([]);
    },
    TIMEOUT_MS,
  );
});
