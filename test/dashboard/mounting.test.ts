import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type AuditList,
  createDashboard,
  type SessionInfo,
  type SnapshotEvent,
} from '../../src/dashboard/index.ts';
import { createLocks, memoryStore } from '../../src/index.ts';
import { EventReader } from './support/event-source.ts';
import { BASE, FRAMEWORKS, type Mounted } from './support/frameworks.ts';
import { serve } from './support/served.ts';

const ANN = { authorization: 'Bearer ann-token' };
const BOB = { authorization: 'Bearer bob-token' };

describe.each(Object.keys(FRAMEWORKS))('mounted in %s', (name) => {
  const locks = createLocks(memoryStore());
  let mounted: Mounted;
  const get = (path: string, headers = {}): Promise<Response> =>
    fetch(mounted.url + BASE + path, { headers });
  beforeAll(async () => {
    mounted = await (FRAMEWORKS[name] as (typeof FRAMEWORKS)[string])(locks);
  });
  afterAll(async () => {
    await mounted?.close();
    await locks.close({ drainMs: 0 });
  });

  it('is behind the authentication of the framework', async () => {
    for (const path of ['', '/', '/api/locks', '/metrics']) expect((await get(path)).status).toBe(401);
    for (const [headers, role, who] of [
      [ANN, 'operate', 'ann'],
      [BOB, 'read', 'bob'],
    ] as const)
      expect((await (await get('/api/session', headers)).json()) as SessionInfo).toMatchObject({ role, who });
  });

  it('serves the page, whose script and style are found, with and without a slash at the end', async () => {
    for (const path of ['', '/']) {
      const page = await get(path, ANN);
      expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8']);
      const html = await page.text();
      expect(html).toContain(`data-base="${BASE}"`);
      const links = [...html.matchAll(/(?:src|href)="(\/[^"]+)"/g)].map(([, link]) => link ?? '');
      expect(links).toHaveLength(2);
      for (const link of links) {
        const asset = await fetch(new URL(link, page.url), { headers: ANN });
        expect([asset.status, asset.headers.get('content-type')]).toEqual([
          200,
          expect.stringMatching(/^text\/(javascript|css); charset=utf-8$/),
        ]);
        await asset.text();
      }
    }
  });

  it('lists, streams and counts', async () => {
    const hold = await locks.mutex('shown').acquire();
    const events = new EventReader((await get('/api/events', BOB)).body);
    const shows = ({ locks: all }: SnapshotEvent): boolean => all.some((lock) => lock.name === 'shown');
    await events.until<SnapshotEvent>('snapshot', shows);
    await events.close();
    expect(await (await get('/api/locks?prefix=shown', BOB)).json()).toMatchObject({ total: 1 });
    expect(await (await get('/metrics', BOB)).text()).toContain('holdfast_held{');
    await hold.release();
  });

  it('evicts for an operator, and for nobody else', async () => {
    const { id, fence } = await locks.mutex('stuck').acquire();
    const body = JSON.stringify({ name: 'stuck', id, fence: `${fence}`, confirm: 'stuck' });
    const evict = (user: Record<string, string>): Promise<Response> =>
      fetch(`${mounted.url}${BASE}/api/evict`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...user },
        body,
      });
    expect((await evict({})).status).toBe(401);
    expect((await evict(BOB)).status).toBe(403);
    expect((await locks.inspect('stuck')).holders).toHaveLength(1);
    expect(await (await evict(ANN)).json()).toEqual({ outcome: 'evicted', holders: [] });
    const { entries } = (await (await get('/api/audit', BOB)).json()) as AuditList;
    expect(entries).toMatchObject([{ who: 'ann', name: 'stuck', outcome: 'evicted' }]);
  });
});

describe('a base path', () => {
  it('is not needed at the root', async () => {
    await using served = await serve();
    expect(await (await served.get('/')).text()).toContain('src="/assets/page-');
    expect((await served.get('/api/session')).status).toBe(200);
  });

  it.each(['locks', '/a b', '/a"b', '/a//b', '/a?b', 7])('is refused when it is none: %s', (basePath) => {
    const locks = createLocks(memoryStore());
    const make = (): unknown =>
      createDashboard(locks, { access: () => 'read', basePath: basePath as string });
    expect(make).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  });
});

describe('a dashboard that is closed', () => {
  it('ends its streams and refuses requests, and leaves the locks open', async () => {
    await using served = await serve();
    const events = new EventReader((await served.get('/api/events')).body);
    await events.until<SnapshotEvent>('snapshot');
    await served.dashboard.close();
    while ((await events.next()) !== null);
    expect((await served.get('/api/locks')).status).toBe(503);
    await served.locks.mutex('still').run(() => {});
  });
});
