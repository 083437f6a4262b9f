import { request as httpRequest } from 'node:http';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type AuditList, createDashboard, type FailedEvent } from '../../src/dashboard/index.ts';
import { createLocks, memoryStore, openLocks } from '../../src/index.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { EventReader } from './support/event-source.ts';
import { type Served, serve } from './support/served.ts';

let served: Served;
let calls: string[] = [];
beforeAll(async () => {
  served = await serve({
    access: (request) => {
      calls.push(new URL(request.url).pathname);
      return 'operate';
    },
  });
});
afterAll(async () => {
  await served?.[Symbol.asyncDispose]();
});

interface Raw {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

/** `fetch` does not let a program set `Host`, `Origin` or `Sec-Fetch-Site` freely. */
function raw({
  path,
  method = 'GET',
  headers = {},
  body = '',
}: Raw): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const sent = httpRequest(`${served.url}${path}`, { method, headers }, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk: Buffer) => chunks.push(chunk));
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, text: `${Buffer.concat(chunks)}` }));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}

const JSON_TYPE = { 'content-type': 'application/json' };
const evict = { path: '/api/evict', method: 'POST', body: '{}' };

describe('DNS rebinding', () => {
  it.each(['/', '/api/locks', '/api/events', '/metrics', '/assets/x.js'])(
    'is refused at %s before the access function is called',
    async (path) => {
      calls = [];
      const { status, text } = await raw({ path, headers: { host: 'evil.example' } });
      expect([status, JSON.parse(text)]).toMatchObject([403, { error: 'host' }]);
      expect(calls).toEqual([]);
    },
  );

  it('is refused for a name that only looks local', async () => {
    for (const host of ['localhost.evil.example', '127.0.0.1.evil.example', 'evil.example:80', 'xlocalhost'])
      expect((await raw({ path: '/api/locks', headers: { host } })).status, host).toBe(403);
    for (const host of [served.host, 'localhost:1', 'app.localhost', '[::1]:80', '10.0.0.7'])
      expect((await raw({ path: '/api/locks', headers: { host } })).status, host).toBe(200);
  });

  it('is refused for every host that is not listed, where hosts are listed', async () => {
    const locks = createLocks(memoryStore());
    const dashboard = createDashboard(locks, {
      access: () => 'read',
      hosts: ['Ops.example', 'a.example:8080'],
    });
    const statusOf = async (url: string): Promise<number> => (await dashboard.fetch(new Request(url))).status;
    expect(await statusOf('https://ops.example/api/session')).toBe(200);
    expect(await statusOf('https://ops.example:444/api/session')).toBe(200);
    expect(await statusOf('http://a.example:8080/api/session')).toBe(200);
    expect(await statusOf('http://a.example/api/session')).toBe(403);
    expect(await statusOf('http://127.0.0.1/api/session')).toBe(403);
    await locks.close();
  });
});

describe('the Host header', () => {
  it.each(['127.0.0.1/api', 'a@127.0.0.1', '127.0.0.1?x=', '127.0.0.1#', 'a b', '127.0.0.1:99999999'])(
    'that is no host makes no path: %j',
    async (host) => {
      calls = [];
      expect((await raw({ path: '/session', headers: { host } })).status).toBe(400);
      expect(calls).toEqual([]);
    },
  );

  it('is all that fetch knows of the address: there, hosts must be set', async () => {
    const locks = createLocks(memoryStore());
    const request = (): Request => new Request('http://evil.example/api/session');
    const open = createDashboard(locks, { access: () => 'read' });
    const listed = createDashboard(locks, { access: () => 'read', hosts: ['localhost'] });
    expect((await open.fetch(request())).status).toBe(200);
    expect((await listed.fetch(request())).status).toBe(403);
    await locks.close();
  });
});

describe('requests of other sites', () => {
  it.each([
    ['another origin', { origin: 'https://evil.example' }],
    ['the origin null', { origin: 'null' }],
    ['another port', { origin: 'http://127.0.0.1:1' }],
    ['a cross-site fetch', { 'sec-fetch-site': 'cross-site' }],
    ['a fetch of a neighbouring site', { 'sec-fetch-site': 'same-site' }],
    ['a navigation by POST', { 'sec-fetch-site': 'none' }],
  ])('may not evict: %s', async (_what, headers) => {
    const { status, text } = await raw({ ...evict, headers: { ...JSON_TYPE, ...headers } });
    expect([status, JSON.parse(text)]).toMatchObject([403, { error: 'origin' }]);
  });

  it('may not read lists, events and metrics', async () => {
    for (const path of ['/api/locks', '/api/lock?name=x', '/api/events', '/api/audit', '/metrics'])
      expect((await raw({ path, headers: { 'sec-fetch-site': 'cross-site' } })).status, path).toBe(403);
  });

  it('may link to the page', async () => {
    const headers = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' };
    expect((await raw({ path: '/', headers })).status).toBe(200);
  });

  it('are told from requests of the page, and of programs that are no browsers', async () => {
    for (const headers of [{ 'sec-fetch-site': 'same-origin' }, { origin: served.url }, {}])
      expect((await raw({ ...evict, headers: { ...JSON_TYPE, ...headers } })).status).toBe(400);
  });

  it('cannot evict by a form, whose content type is refused', async () => {
    for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data', ''])
      expect((await raw({ ...evict, headers: type === '' ? {} : { 'content-type': type } })).status).toBe(
        415,
      );
  });

  it('get no CORS headers, not even to a preflight', async () => {
    const answer = await fetch(`${served.url}/api/evict`, { method: 'OPTIONS' });
    expect(answer.status).toBe(405);
    const names = [...(await served.get('/api/locks')).headers.keys(), ...answer.headers.keys()];
    expect(names.filter((name) => name.startsWith('access-control'))).toEqual([]);
  });
});

describe('every answer', () => {
  it.each(['/', '/api/session', '/metrics', '/nothing', '/assets/none.js'])(
    'has its headers: %s',
    async (path) => {
      const { headers } = await served.get(path);
      expect(headers.get('content-security-policy')).toBe(
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; " +
          "img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'self'",
      );
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('referrer-policy')).toBe('no-referrer');
      expect(headers.get('cache-control')).toBe('no-store');
      expect(headers.get('set-cookie')).toBeNull();
    },
  );

  it('has a method that is allowed', async () => {
    for (const [method, path] of [
      ['DELETE', '/api/locks'],
      ['GET', '/api/evict'],
      ['POST', '/'],
      ['PUT', '/metrics'],
    ] as const)
      expect((await raw({ method, path })).status, path).toBe(405);
  });

  it('keeps the secrets of a store to itself', async () => {
    const url = 'redis://ann:hunter2@127.0.0.1:1';
    await using failing = await serve({ locks: await openLocks(url, { connect: false, commandMs: 500 }) });
    const paths = ['/api/locks', '/api/lock?name=a', '/api/schedules'];
    for (const answer of await Promise.all(paths.map((path) => failing.get(path)))) {
      const body = { error: 'store', message: 'The store failed: STORE.' };
      expect([answer.status, await answer.json()]).toEqual([503, body]);
    }
    const events = new EventReader((await failing.get('/api/events')).body);
    const failed = await events.until<FailedEvent>('failed');
    expect(failed).toEqual({ atMs: expect.any(Number), intervalMs: expect.any(Number), code: 'STORE' });
    await events.close();
    const { entries } = await failing.read<AuditList>('/api/audit');
    expect(entries).toEqual([]);
  });
});

describe('access', () => {
  it('is required', () => {
    const locks = createLocks(memoryStore());
    for (const options of [
      undefined,
      {},
      { access: undefined },
      { access: 'operate' },
      { acces: () => 'read' },
    ])
      expect(() => createDashboard(locks, options as never)).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
      );
  });

  it.each([
    ['none', () => 'none'],
    ['an unknown word', () => 'admin'],
    ['nothing', () => undefined],
    ['true', () => true],
    ['none, as an object', async () => ({ role: 'none', who: 'ann' })],
  ])('is refused for %s', async (_what, access) => {
    await using closed = await serve({ access: access as never });
    for (const path of ['/', '/api/locks', '/api/events', '/metrics', '/assets/x'])
      expect((await closed.get(path)).status).toBe(403);
  });

  it('is refused, without the reason, when its function throws', async () => {
    const warnings: Error[] = [];
    const onWarning = (warning: Error): void => void warnings.push(warning);
    process.on('warning', onWarning);
    await using broken = await serve({
      access: () => {
        throw new Error('secret reason');
      },
    });
    const answer = await broken.get('/api/locks');
    expect(answer.status).toBe(500);
    expect(await answer.text()).not.toContain('secret');
    await eventually('a warning', () => warnings.some(({ message }) => message.includes('access')));
    process.off('warning', onWarning);
  });
});

describe('bodies', () => {
  it('have a bound, whether or not they say how long they are', async () => {
    const body = JSON.stringify({ name: 'x'.repeat(70_000) });
    expect((await raw({ ...evict, body, headers: JSON_TYPE })).status).toBe(413);
    const chunked = { ...JSON_TYPE, 'transfer-encoding': 'chunked' };
    expect((await raw({ ...evict, body, headers: chunked })).status).toBe(413);
  });

  it.each(['', 'null', '[]', '7', '{', '{"name":'])(
    'that are no JSON object are refused: %s',
    async (body) => {
      expect((await raw({ ...evict, body, headers: JSON_TYPE })).status).toBe(400);
    },
  );

  it('with a request line that is no URL harm nothing', async () => {
    const text = await new Promise<string>((resolve) => {
      const socket = connect(Number(new URL(served.url).port), '127.0.0.1', () => {
        socket.end('GET //evil.example/api/session HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n');
      });
      let received = '';
      socket.on('data', (chunk) => {
        received += chunk;
      });
      socket.on('close', () => resolve(received));
    });
    expect(text).toMatch(/^HTTP\/1\.1 404 /);
    expect((await served.get('/api/session')).status).toBe(200);
  });
});
