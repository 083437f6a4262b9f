// `npm run screenshots`: takes the pictures of docs/images from the real page, over a scene of locks
// that look like those of a shop.
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { install } from '../src/torture/servers/find.ts';
import { openPage, startBrowser } from '../test/support/dashboard/browser.ts';
import { playScene } from '../test/support/dashboard/scene.ts';
import { serveDashboard } from '../test/support/dashboard/served-dashboard.ts';
import { dashboardPage, PAGE_NAME } from './dashboard-page.mjs';

const BYTES_MAX = 150_000;
const folder = process.argv[2] ?? fileURLToPath(new URL('../docs/images', import.meta.url));

interface Picture {
  readonly name: string;
  readonly hash: string;
  readonly context: BrowserContextOptions;
  /** What the page has to show before the picture is taken. */
  readonly until: string;
  readonly before?: (page: Page) => Promise<void>;
}

const WIDE = { width: 1200, height: 780 };
const PHONE = { viewport: { width: 360, height: 680 }, deviceScaleFactor: 2, hasTouch: true };

const PICTURES: readonly Picture[] = [
  {
    name: 'dashboard-locks',
    hash: '#/locks',
    context: { viewport: WIDE, colorScheme: 'light' },
    until: 'text=order:42',
  },
  {
    name: 'dashboard-lock',
    hash: '#/lock?name=order:42',
    context: { viewport: { width: 1200, height: 1210 }, colorScheme: 'dark' },
    until: '.timeline',
  },
  {
    name: 'dashboard-evict',
    hash: '#/lock?name=report:nightly',
    context: { viewport: { width: 900, height: 640 }, colorScheme: 'light' },
    until: '.holder',
    before: async (page) => {
      await page.getByRole('button', { name: 'Evict' }).first().click();
      await page.getByLabel('Type the name of the lock to confirm').fill('report:nightly');
    },
  },
  {
    name: 'dashboard-phone',
    hash: '#/locks',
    context: { ...PHONE, colorScheme: 'light' },
    until: 'text=order:42',
  },
];

async function take(
  browser: Browser,
  url: string,
  { name, hash, context, until, before }: Picture,
): Promise<void> {
  await using opened = await openPage(browser, `${url}${hash}`, { reducedMotion: 'reduce', ...context });
  const { page } = opened;
  await page.waitForSelector(until);
  await before?.(page);
  await page.waitForTimeout(600);
  const path = join(folder, `${name}.png`);
  await page.screenshot({ path });
  const { size } = statSync(path);
  console.log(`${path}  ${Math.round(size / 1000)} kB`);
  for (const complaint of opened.complaints) console.log(`  the page complains: ${complaint}`);
  if (size > BYTES_MAX) throw new Error(`${path} has ${size} bytes, ${BYTES_MAX} is the most`);
}

// The sources have no page of their own: the build and the test runner define it.
Object.assign(globalThis, { [PAGE_NAME]: dashboardPage() });
mkdirSync(folder, { recursive: true });
// The fonts that the page prefers, so that the pictures look the same on every machine.
const missing = install(['fonts-inter', 'fonts-jetbrains-mono']);
if (missing !== undefined) console.log(`The fonts of this machine are used. ${missing}`);
const browser = await startBrowser();
try {
  await using scene = await playScene();
  await using served = await serveDashboard(scene.locks, { access: () => ({ role: 'operate', who: 'ada' }) });
  await using watching = await openPage(browser, served.url);
  await scene.goOn();
  for (const picture of PICTURES) await take(browser, served.url, picture);
  if (watching.complaints.length > 0) console.log(watching.complaints);
} finally {
  await browser.close();
}
