import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions } from 'playwright-core';
import type { DashboardOptions } from '../../../src/dashboard/index.ts';
import { createLocks, type Locks, type LocksOptions } from '../../../src/index.ts';
import type { Store } from '../../../src/store/store.ts';
import { sqliteStore } from '../../../src/stores/sqlite/index.ts';
import { type OpenPage, openPage, startBrowser } from './browser.ts';
import { serveDashboard } from './served-dashboard.ts';

/** Processes that share one store, a dashboard of it, and a browser to look at it. */
export interface PageWorld extends AsyncDisposable {
  readonly browser: Browser;
  /** Of the page, under the base path `/ops/locks`. */
  readonly url: string;
  /** The Locks that serves the dashboard. */
  readonly locks: Locks;
  /** The Locks of another process. */
  of(owner: string, options?: LocksOptions): Locks;
  open(hash: string, options?: BrowserContextOptions): Promise<OpenPage>;
}

/** A caller says by a header what it may do; an operator unless it says so. */
const access: DashboardOptions['access'] = (request) =>
  request.headers.get('x-role') === 'read' ? 'read' : { role: 'operate', who: 'ada' };

/** The header of a viewer who may look, and not evict. */
export const READ_ONLY: BrowserContextOptions = { extraHTTPHeaders: { 'x-role': 'read' } };

/** `makeStore`: one store for each owner; a SQLite file unless given. */
export async function startPageWorld(makeStore?: () => Store): Promise<PageWorld> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-page-'));
  const newStore = makeStore ?? (() => sqliteStore(join(folder, 'locks.db')));
  const all = new Map<string, Locks>();
  const of = (owner: string, options: LocksOptions = {}): Locks => {
    const made = all.get(owner) ?? createLocks(newStore(), { owner, waitMs: 120_000, ...options });
    all.set(owner, made);
    return made;
  };
  const locks = of('dashboard:1:a');
  const [browser, served] = await Promise.all([
    startBrowser(),
    serveDashboard(locks, { access, basePath: '/ops/locks' }),
  ]);
  return {
    browser,
    locks,
    of,
    url: served.url,
    open: (hash, options) => openPage(browser, `${served.url}${hash}`, options),
    [Symbol.asyncDispose]: async () => {
      await browser.close();
      await served[Symbol.asyncDispose]();
      await Promise.all([...all.values()].map((each) => each.close({ drainMs: 0 })));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Stands in the queue until the world ends, and hears nothing of it. */
export function waitFor(locks: Locks, name: string): void {
  locks
    .mutex(name)
    .acquire({ waitMs: Number.POSITIVE_INFINITY })
    .catch(() => {});
}
