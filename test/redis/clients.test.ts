import { execFileSync, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { createClient } from 'redis';
import { afterAll, describe, expect, it } from 'vitest';
import { redisFenceGate } from '../../src/fence/index.ts';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import { redisStore } from '../../src/stores/redis/index.ts';
import { findProgram } from '../../src/torture/servers/find.ts';
import { freePorts } from '../../src/torture/servers/ports.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { LIBRARIES, PREVIOUS_LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { collectWarnings } from './support/collect-warnings.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());
const dir = mkdtempSync(join(tmpdir(), 'holdfast-tls-'));
afterAll(async () => {
  rmSync(dir, { recursive: true });
});

/** A smoke test of one client: acquires, waits, hands off, inspects, lists and takes permits. */
async function smoke(a: Locks, b: Locks, name: string): Promise<void> {
  const hold = await a.mutex(name).acquire();
  expect(await b.mutex(name).tryAcquire()).toBeNull();
  const pending = later(b.mutex(name).acquire());
  await eventually('the second caller waits', async () => (await a.inspect(name)).waiters.length === 1);
  await hold.extend();
  await hold.release();
  const next = await pending;
  expect(next.fence).toBeGreaterThan(hold.fence);
  expect((await b.inspect(name)).holders[0]?.id).toBe(next.id);
  const listed = [];
  for await (const view of a.list(name)) listed.push(view.name);
  expect(listed).toEqual([name]);
  await next.release();
  const permits = await Promise.all([1, 2].map(() => a.semaphore(name, { permits: 2 }).acquire()));
  expect(await b.semaphore(name, { permits: 2 }).tryAcquire()).toBeNull();
  await Promise.all(permits.map((permit) => permit.release()));
}

it.each(PREVIOUS_LIBRARIES)('the previous major version %s works', async (library) => {
  const [a, b] = await Promise.all([
    stage.locks(library, stage.server.url),
    stage.locks(library, stage.server.url),
  ]);
  await smoke(a, b, `smoke ${library}`);
});

it('the key prefix of the client is put before the prefix of the store', async () => {
  const clients = [1, 2].map(() => new Redis(stage.server.url, { keyPrefix: 'app:' }));
  const [a, b] = clients.map((client) => createLocks(redisStore(client, { prefix: 'locks:' })));
  await smoke(a as Locks, b as Locks, 'prefixed');
  const hold = await a?.mutex('seen').acquire();
  expect(await stage.admin.get('app:locks:seen')).toContain(hold?.id);
  await hold?.release();
  await Promise.all([a?.close(), b?.close()]);
  for (const client of clients) client.disconnect();
});

it('a client with autopipelining works', async () => {
  const clients = [1, 2].map(() => new Redis(stage.server.url, { enableAutoPipelining: true }));
  const [a, b] = clients.map((client) => createLocks(redisStore(client)));
  await smoke(a as Locks, b as Locks, 'pipelined');
  await Promise.all([a?.close(), b?.close()]);
  for (const client of clients) client.disconnect();
});

it('with an empty prefix, list yields our locks and expiring strings; patterns are literal', async () => {
  const locks = await stage.locks('ioredis', stage.server.url, { prefix: '' });
  await stage.admin.set('data', 'that nobody locks');
  await stage.admin.lpush('list', 'of something');
  await stage.admin.set('theirs', 'a lock', 'PX', 60_000);
  const names = ['a*b', 'a[x]b', 'axb', 'a?b', 'ä ö'];
  const holds = await Promise.all(names.map((name) => locks.mutex(name).acquire()));
  const listed = async (prefix?: string): Promise<string[]> => {
    const found = [];
    for await (const view of locks.list(prefix)) found.push(view.name);
    return found.sort();
  };
  const ours = await listed();
  expect(ours).toEqual(expect.arrayContaining([...names, 'theirs']));
  expect(ours).not.toContain('data');
  expect(ours).not.toContain('list');
  expect(await listed('a*')).toEqual(['a*b']);
  expect(await listed('a[')).toEqual(['a[x]b']);
  await Promise.all(holds.map((hold) => hold.release()));
  await stage.admin.del('data', 'list', 'theirs');
});

it('a user without the right to subscribe still acquires the lock, by polling', async () => {
  await stage.admin.call('ACL', 'SETUSER', 'deaf', 'on', '>deaf', '~*', 'resetchannels', '+@all');
  const url = stage.server.url.replace('redis://', 'redis://deaf:deaf@');
  const [a, b] = await Promise.all([
    stage.locks('ioredis', stage.server.url),
    stage.locks('node-redis', url),
  ]);
  const hold = await a.mutex('deaf').acquire();
  const pending = later(b.mutex('deaf').acquire());
  await eventually('the second caller waits', async () => (await a.inspect('deaf')).waiters.length === 1);
  await hold.release();
  await (await pending).release();
});

it('a client with lazyConnect is connected by the first command', async () => {
  const client = new Redis(stage.server.url, { lazyConnect: true });
  const locks = createLocks(redisStore(client));
  expect(client.status).toBe('wait');
  await (await locks.mutex('lazy').acquire()).release();
  await locks.close();
  client.disconnect();
});

it('a client that is closed or was never connected fails at once, with applied: no', async () => {
  const closed = new Redis(stage.server.url);
  await closed.quit();
  await eventually('it is closed', () => closed.status === 'end');
  const never = createClient({ url: stage.server.url });
  for (const client of [closed, never]) {
    const locks = createLocks(redisStore(client));
    await expect(locks.mutex('x').tryAcquire()).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
    await locks.close();
  }
});

it('a value that is not a client, and an option that is unknown or out of range, are refused at once', () => {
  expect(() => redisStore({} as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  expect(() => redisStore(null as never)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  const client = new Redis(stage.server.url, { lazyConnect: true });
  for (const options of [{ queueMax: 0 }, { prefix: 'x'.repeat(300) }]) {
    expect(() => redisStore(client, options)).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
  }
  expect(() => redisStore(client, { keyPrefix: 'x' } as never)).toThrow('did you mean prefix?');
  expect(() => redisFenceGate(client, { prefx: 'x' } as never)).toThrow('did you mean prefix?');
});

it.each(LIBRARIES)('many stores that wait for one client cause no warning, under %s', async (library) => {
  const warnings = collectWarnings();
  const [port] = await freePorts(1);
  const url = `redis://127.0.0.1:${port}`;
  const client = library === 'ioredis' ? new Redis(url) : createClient({ url });
  client.on('error', () => {});
  if ('isOpen' in client) client.connect().catch(() => {});
  const all = Array.from({ length: 12 }, () => createLocks(redisStore(client)));
  const claims = await Promise.allSettled(all.map((locks) => locks.mutex('x').acquire({ waitMs: 300 })));
  expect(claims.map(({ status }) => status)).toEqual(all.map(() => 'rejected'));
  expect(await warnings()).toEqual([]);
  await Promise.all(all.map((locks) => locks.close({ drainMs: 0 })));
  if ('isOpen' in client) client.destroy();
  else client.disconnect();
});

describe('opened from a URL', () => {
  it('works, and closing the locks closes the client', async () => {
    const before = String(await stage.admin.call('CLIENT', 'LIST')).split('\n').length;
    const [a, b] = await Promise.all([openLocks(stage.server.url), openLocks(stage.server.url)]);
    await smoke(a, b, 'from a URL');
    await Promise.all([a.close(), b.close()]);
    await eventually('both are gone', async () => {
      return String(await stage.admin.call('CLIENT', 'LIST')).split('\n').length <= before;
    });
  });

  it('an unreachable server rejects with a StoreError within waitMs', async () => {
    const [port] = await freePorts(1);
    const locks = await openLocks(`redis://127.0.0.1:${port}`, { connect: false });
    await expect(locks.mutex('x').acquire({ waitMs: 500 })).rejects.toMatchObject({
      code: 'STORE',
    });
    await locks.close({ drainMs: 100 });
  });

  it('without a client library, the error names the package to install', () => {
    const open = fileURLToPath(new URL('../../src/stores/redis/open.ts', import.meta.url));
    const script = `import { register } from 'node:module';
      const hooks = 'export async function resolve(name, context, next) {' +
        'const missing = Object.assign(new Error(name), { code: "ERR_MODULE_NOT_FOUND" });' +
        'if (name === "ioredis" || name === "redis") throw missing;' +
        'return next(name, context); }';
      register('data:text/javascript,' + encodeURIComponent(hooks));
      const { openRedis } = await import(${JSON.stringify(`file://${open}`)});
      await openRedis('redis://x').catch((error) => console.log(error.code, error.message));`;
    const { stdout } = spawnSync(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      encoding: 'utf8',
    });
    expect(stdout).toMatch(/^UNSUPPORTED .*npm install ioredis/);
  });
});

it('TLS: with a client that trusts the certificate, and from a rediss:// URL', async () => {
  const openssl = findProgram({ title: 'OpenSSL', binary: 'openssl', packages: ['openssl'] });
  const [key, certificate] = [join(dir, 'key.pem'), join(dir, 'certificate.pem')];
  const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'];
  const kind = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2'];
  execFileSync(openssl, [...kind, '-keyout', key, '-out', certificate, ...subject], { stdio: 'ignore' });
  const [tlsPort = 0] = await freePorts(1);
  const tls = [
    '--tls-port',
    `${tlsPort}`,
    '--tls-cert-file',
    certificate,
    '--tls-key-file',
    key,
    '--tls-auth-clients',
    'no',
  ];
  await using server = await startRedis({ args: [...tls, '--tls-ca-cert-file', certificate] });
  expect(server.port).not.toBe(tlsPort);
  const ca = readFileSync(certificate);
  const ioredis = new Redis({ host: 'localhost', port: tlsPort, tls: { ca } });
  const nodeRedis = createClient({ socket: { host: 'localhost', port: tlsPort, tls: true, ca } });
  nodeRedis.on('error', () => {});
  await nodeRedis.connect();
  const [a, b] = [createLocks(redisStore(ioredis)), createLocks(redisStore(nodeRedis))];
  await smoke(a, b, 'over TLS');
  await Promise.all([a.close(), b.close()]);
  ioredis.disconnect();
  nodeRedis.destroy();

  const index = fileURLToPath(new URL('../../src/index.ts', import.meta.url));
  const script = `const { openLocks } = await import(${JSON.stringify(`file://${index}`)});
    const locks = await openLocks('rediss://localhost:${tlsPort}');
    console.log('released', await (await locks.mutex('x').acquire()).release());
    await locks.close();`;
  const env = { ...process.env, NODE_EXTRA_CA_CERTS: certificate };
  const options = { encoding: 'utf8', env, timeout: 60_000 } as const;
  const result = spawnSync(
    process.execPath,
    ['--import', 'tsx', '--input-type=module', '-e', script],
    options,
  );
  expect(result.stdout).toContain('released true');
}, 120_000);

it.each(LIBRARIES)('a server older than 6.2 is refused (%s)', async (library) => {
  // A fake server that answers INFO with an old version.
  const info = 'redis_version:6.0.16\r\nloading:0\r\nmaxmemory_policy:noeviction\r\n';
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      for (const command of data.toString().split(/(?=\*\d+\r\n\$)/)) {
        if (/\r\ninfo\r\n/i.test(command)) socket.write(`$${info.length}\r\n${info}\r\n`);
        else socket.write('+OK\r\n');
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const url = `redis://127.0.0.1:${port}`;
  const client = library === 'ioredis' ? new Redis(url) : createClient({ url, RESP: 2 });
  client.on('error', () => {});
  if (library === 'node-redis') await client.connect();
  const locks = createLocks(redisStore(client));
  await expect(locks.mutex('x').acquire()).rejects.toMatchObject({
    code: 'UNSUPPORTED',
    message: expect.stringContaining('6.2'),
  });
  await locks.close();
  if ('destroy' in client) client.destroy();
  else client.disconnect();
  server.close();
});
