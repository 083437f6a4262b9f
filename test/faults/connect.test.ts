import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Server as NetServer, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { BACKENDS } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { compiled } from '../support/process/compiled.ts';
import { networkUrls } from '../support/servers/network-urls.ts';

/**
 * The promise is one second, and without it a call took `commandMs`, 5 s. Between the two lies what
 * a busy machine may need.
 */
const SECOND_MS = 3_000;
/** No server listens on this port. */
const REFUSED = '127.0.0.1:1';

/** Accepts connections and never answers, as a stopped process does. */
let silent: NetServer;
const sockets = new Set<Socket>();

beforeAll(async () => {
  silent = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => sockets.delete(socket));
  });
  silent.listen(0, '127.0.0.1');
  await once(silent, 'listening');
});
afterAll(() => {
  for (const socket of sockets) socket.destroy();
  silent.close();
});

const silentHost = (): string => `127.0.0.1:${(silent.address() as AddressInfo).port}`;

const failure = async (work: Promise<unknown>): Promise<{ error: unknown; tookMs: number }> => {
  const startedMs = performance.now();
  const error = await work.then(
    () => 'resolved',
    (reason: unknown) => reason,
  );
  return { error, tookMs: performance.now() - startedMs };
};

describe('openLocks connects', () => {
  it.concurrent.each(BACKENDS.filter((kind) => kind !== 'sqlite'))('to %s once it is there', async (kind) => {
    await using backend = await startBackend(kind);
    const route = await backend.route();
    for (const proxy of route.proxies) proxy.refuse();
    const { error } = await failure(openLocks(route.url));
    expect(error).toMatchObject({ code: expect.stringMatching(/STORE|QUORUM/) });
    for (const proxy of route.proxies) proxy.pass();
    const locks = await openLocks(route.url);
    // On a busy machine one try may be too late for the short time limit of Redlock's nodes.
    await locks.withLock('connected', () => {}, { waitMs: 10_000 });
    await locks.close();
  });

  it.concurrent.each(networkUrls(REFUSED))('and rejects when %s refuses the connection', async (url) => {
    const { error } = await failure(openLocks(url));
    expect(error).toMatchObject({ code: expect.stringMatching(/STORE|QUORUM/) });
    expect(String(error)).toMatch(/ECONNREFUSED|unreachable|None of startup nodes/i);
  });

  it('and rejects within commandMs when the server is silent', async () => {
    const all = networkUrls(silentHost()).map(async (url) => {
      const { error, tookMs } = await failure(openLocks(url, { commandMs: 1_500 }));
      expect(error, url).toMatchObject({ code: expect.stringMatching(/STORE|QUORUM/) });
      // The grid of time limits, a turn of the event loop and a busy machine.
      expect(tookMs, url).toBeLessThan(4_500);
    });
    await Promise.all(all);
  });

  it('unless connect is false', async () => {
    const all = [...networkUrls(REFUSED), ...networkUrls(silentHost())].map(async (url) => {
      const locks = await openLocks(url, { connect: false });
      await locks.close();
    });
    await Promise.all(all);
  });

  it('and a program that cannot connect ends by itself', async () => {
    const program = compiled(new URL('../support/process/connect.ts', import.meta.url).pathname);
    const all = networkUrls(REFUSED).map(async (url) => {
      const child = spawn(process.execPath, [program, url], { stdio: ['ignore', 'pipe', 'inherit'] });
      let said = '';
      child.stdout.on('data', (chunk: Buffer) => {
        said += chunk.toString();
      });
      const [code] = await once(child, 'exit');
      expect({ url, code, said }).toMatchObject({ code: 0, said: expect.stringMatching(/^(STORE|QUORUM)$/) });
    });
    await Promise.all(all);
  });
});

describe('while no server can be reached', () => {
  it.concurrent.each(networkUrls(REFUSED))('one try on %s is over within a second', async (url) => {
    const locks = await openLocks(url, { connect: false });
    const { error, tookMs } = await failure(locks.mutex('a').tryAcquire());
    expect(error).toMatchObject({ applied: 'no' });
    expect(tookMs).toBeLessThan(SECOND_MS);
    const closing = await failure(locks.close());
    expect(closing.error).toBe('resolved');
    expect(closing.tookMs).toBeLessThan(SECOND_MS);
  });

  it('closing takes at most a second when nothing is held', async () => {
    const all = networkUrls(silentHost()).map(async (url) => {
      const locks = await openLocks(url, { connect: false });
      await failure(locks.inspect('a'));
      const { tookMs } = await failure(locks.close());
      expect(tookMs, url).toBeLessThan(SECOND_MS);
    });
    await Promise.all(all);
  });
});
