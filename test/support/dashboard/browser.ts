import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core';
import { findProgram } from '../../../src/torture/servers/find.ts';

/** A Chromium without a window. Tests share one for each file. */
export function startBrowser(): Promise<Browser> {
  const executablePath = findProgram({ title: 'Chromium', binary: 'chromium', packages: ['chromium'] });
  // Chromium refuses to run as root inside its sandbox, and containers have little shared memory.
  const asRoot = process.getuid?.() === 0 ? ['--no-sandbox'] : [];
  return chromium.launch({ executablePath, args: [...asRoot, '--disable-dev-shm-usage'] });
}

/** A page of its own, with what it complains about: a broken CSP, an exception, a failed request. */
export interface OpenPage extends AsyncDisposable {
  readonly page: Page;
  readonly complaints: string[];
}

const SLOW_MS = 30_000;

export async function openPage(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<OpenPage> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(SLOW_MS);
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(`${error}`));
  await page.goto(url);
  return { page, complaints, [Symbol.asyncDispose]: () => context.close() };
}
