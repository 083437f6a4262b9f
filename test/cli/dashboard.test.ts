import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listen } from '../../src/cli/dashboard.ts';
import type { SessionInfo } from '../../src/dashboard/index.ts';
import { type Locks, openLocks } from '../../src/index.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { type Holdfast, holdfast, start, stopAll } from './support/holdfast.ts';

const PROGRAM_TOKEN = 'the token of a program';
const folder = mkdtempSync(join(tmpdir(), 'holdfast-dashboard-'));
const store = `sqlite:${join(folder, 'locks.db')}`;
let locks: Locks;

beforeAll(async () => {
  locks = await openLocks(store);
});
afterAll(async () => {
  await stopAll();
  await locks?.close({ drainMs: 0 });
  rmSync(folder, { recursive: true, force: true });
});

interface Opened {
  readonly command: Holdfast;
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** The URLs that were printed, with their tokens. */
  urls(): string[];
  /** The cookie of a session that the URL has opened. */
  signIn(url?: string): Promise<string>;
}

async function open(args: readonly string[] = [], env: NodeJS.ProcessEnv = {}): Promise<Opened> {
  const command = await start(['dashboard', '--store', store, ...args], env);
  await command.printed('\n');
  const urls = (): string[] => command.stdout.trim().split('\n');
  const first = urls()[0] ?? '';
  return {
    ...{ command, urls, url: first.startsWith('{') ? '' : new URL(first).origin },
    async signIn(url = first) {
      const answer = await fetch(url, { redirect: 'manual' });
      expect(answer.status).toBe(303);
      return (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    },
  };
}

const session = async (url: string, headers: Record<string, string>): Promise<[number, SessionInfo]> => {
  const answer = await fetch(`${url}/api/session`, { headers });
  return [answer.status, (await answer.json()) as SessionInfo];
};

describe.concurrent('holdfast dashboard', () => {
  it('exchanges the token of its URL once for a session, and hides the token from the history', async () => {
    const { url, urls, signIn, command } = await open();
    const [first = ''] = urls();
    expect(first).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?token=[\w-]{43}$/);
    for (const path of ['/', '/api/locks', '/api/events', '/metrics', '/?token=wrong', '/?token='])
      expect([401, 403]).toContain((await fetch(url + path)).status);

    // A look at the headers alone, as link previews take one, does not use the token up.
    await fetch(first, { method: 'HEAD' });
    const answer = await fetch(first, { redirect: 'manual' });
    expect([answer.status, answer.headers.get('location')]).toEqual([303, '/']);
    expect(answer.headers.get('set-cookie')).toMatch(
      /^holdfast_dashboard_\d+=[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200$/,
    );
    expect(answer.headers.get('referrer-policy')).toBe('no-referrer');
    const again = await fetch(first, { redirect: 'manual' });
    expect([again.status, again.headers.get('set-cookie')]).toEqual([401, null]);
    expect(await again.text()).toContain('Press Enter');

    const cookie = (answer.headers.get('set-cookie') ?? '').split(';')[0] ?? '';
    const page = await fetch(url, { headers: { cookie } });
    expect([page.status, await page.text()]).toEqual([200, expect.stringContaining('/assets/page-')]);
    expect(await session(url, { cookie })).toMatchObject([200, { role: 'operate', store: 'sqlite' }]);
    expect((await session(url, { cookie: `${cookie}x` }))[0]).toBe(403);

    // Enter prints another URL. It opens a session of its own, and the first session continues.
    command.child.stdin?.write('\n');
    await eventually('a second URL', () => urls().length === 2);
    const second = await signIn(urls()[1]);
    expect(second).not.toBe(cookie);
    for (const each of [cookie, second]) expect((await session(url, { cookie: each }))[0]).toBe(200);

    command.child.kill('SIGINT');
    expect((await command.result()).code).toBe(0);
  });

  it('lets a session evict, unless it is read-only', async () => {
    const hold = await locks.mutex('stuck').acquire();
    const body = JSON.stringify({ name: 'stuck', id: hold.id, fence: `${hold.fence}`, confirm: 'stuck' });
    for (const [args, status] of [
      [['--read-only'], 403],
      [[], 200],
    ] as const) {
      const { url, signIn } = await open(args);
      const headers = { cookie: await signIn(), 'content-type': 'application/json' };
      const answer = await fetch(`${url}/api/evict`, { method: 'POST', headers, body });
      expect(answer.status).toBe(status);
      expect((await locks.inspect('stuck')).holders).toHaveLength(status === 200 ? 0 : 1);
    }
  });

  it('knows a program by its Bearer token, without cookies', async () => {
    const { url, urls, signIn } = await open([], { HOLDFAST_DASHBOARD_TOKEN: PROGRAM_TOKEN });
    const authorization = `Bearer ${PROGRAM_TOKEN}`;
    const metrics = await fetch(`${url}/metrics`, { headers: { authorization } });
    expect([metrics.status, metrics.headers.get('set-cookie')]).toEqual([200, null]);
    // A program that collects metrics needs no more than to read.
    expect((await session(url, { authorization }))[1]).toMatchObject({ who: 'program', role: 'read' });
    const headers = { authorization, 'content-type': 'application/json' };
    expect((await fetch(`${url}/api/evict`, { method: 'POST', headers, body: '{}' })).status).toBe(403);
    expect((await session(url, { authorization: `${authorization}x` }))[0]).toBe(403);
    // A URL that is opened with a Bearer token opens no session, and is not used up.
    const answer = await fetch(urls()[0] ?? '', { headers: { authorization }, redirect: 'manual' });
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([200, null]);
    const cookie = await signIn();
    expect((await session(url, { cookie, authorization: 'Bearer wrong' }))[0]).toBe(403);
  });

  it('answers to its own host names only, also with a session', async () => {
    const { url, signIn } = await open();
    const cookie = await signIn();
    const { port } = new URL(url);
    const statusFor = (host: string): Promise<number> =>
      new Promise((resolve, reject) => {
        const sent = request(`${url}/api/session`, { headers: { host, cookie } }, (answer) => {
          answer.resume();
          resolve(answer.statusCode ?? 0);
        });
        sent.on('error', reject).end();
      });
    expect(await statusFor(`localhost:${port}`)).toBe(200);
    for (const host of ['evil.example', `evil.example:${port}`, 'localhost', '127.0.0.1:1', '10.0.0.1'])
      expect(await statusFor(host), host).toBe(403);
  });

  it('answers at another loopback address that it was told to listen on', async () => {
    const { url, signIn } = await open(['--host', '127.0.0.2']);
    expect(new URL(url).hostname).toBe('127.0.0.2');
    const cookie = await signIn();
    expect((await session(url, { cookie }))[0]).toBe(200);
  });

  it('keeps the session to encrypted connections when a proxy with TLS is in front', async () => {
    const { urls } = await open();
    const headers = { 'x-forwarded-proto': 'https' };
    const answer = await fetch(urls()[0] ?? '', { headers, redirect: 'manual' });
    expect(answer.headers.get('set-cookie')).toMatch(/; SameSite=Strict; Max-Age=43200; Secure$/);
  });

  it('needs --insecure for another address than loopback, and a port that is one', async () => {
    const refused = await holdfast(['dashboard', '--store', store, '--host', '0.0.0.0']);
    expect([refused.code, refused.stderr]).toEqual([64, expect.stringContaining('--insecure')]);
    expect((await holdfast(['dashboard', '--store', store, '--port', '70000'])).code).toBe(64);
    const short = { HOLDFAST_DASHBOARD_TOKEN: 'short' };
    expect((await holdfast(['dashboard', '--store', store], short)).code).toBe(64);
    const { urls } = await open(['--host', '0.0.0.0', '--insecure', '--json']);
    const { url } = JSON.parse(urls()[0] ?? '') as { url: string };
    const { port, search } = new URL(url);
    expect((await fetch(`http://127.0.0.1:${port}/${search}`, { redirect: 'manual' })).status).toBe(303);
  });

  it('continues when connections repeatedly cannot be accepted', async () => {
    const server = createServer((_, response) => response.end('served'));
    const { url } = await listen(server, 0, '127.0.0.1');
    // As Node.js reports that no file descriptor is left.
    for (let n = 0; n < 3; n += 1) server.emit('error', new Error('accept EMFILE'));
    expect(await (await fetch(url)).text()).toBe('served');
    server.closeAllConnections();
    server.close();
  });

  it('exits with 69 when the store cannot be reached, and does not show its password', async () => {
    const { code, stdout, stderr } = await holdfast(['dashboard'], {
      HOLDFAST_URL: 'redis://ann:hunter2@127.0.0.1:1',
    });
    expect([code, stdout]).toEqual([69, '']);
    expect(stderr).not.toContain('hunter2');
  });
});
