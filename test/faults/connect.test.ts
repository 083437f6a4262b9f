import { spawn } from 'node:child_process';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { BACKENDS } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { closed } from '../support/process/closed.ts';
import { compiled } from '../support/process/compiled.ts';
import { networkUrls } from '../support/servers/network-urls.ts';
import { withOpenedSockets } from '../support/servers/opened-sockets.ts';
import { type SilentServer, startSilentServer } from '../support/servers/silent-server.ts';
import { turnsAfter } from '../support/waiting/event-loop-turns.ts';
import { eventually } from '../support/waiting/eventually.ts';

/**
 * The promise is one second, and without it a call took `commandMs`, 5 s. Between the two lies what
 * a busy machine may need.
 */
const SOON_MS = 4_500;
/** No server listens on this port. */
const REFUSED = '127.0.0.1:1';

let silent: SilentServer;
beforeAll(async () => {
  silent = await startSilentServer();
});
afterAll(() => silent[Symbol.asyncDispose]());

const failure = async (work: Promise<unknown>): Promise<{ error: unknown; tookMs: number }> => {
  const startedMs = performance.now();
  const error = await work.then(
    () => 'resolved',
    (reason: unknown) => reason,
  );
  return { error, tookMs: performance.now() - startedMs };
};

/** gRPC ends a connection on which no HTTP/2 settings came only when the server does. */
const LEAVES_SOCKETS: ReadonlySet<string> = new Set(['etcd://HOST']);

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

  it('and rejects within commandMs when the server is silent, with every socket closed', async () => {
    const commandMs = 1_500;
    // The time that loading the client libraries takes is not what is measured.
    await Promise.all(networkUrls(REFUSED).map((url) => failure(openLocks(url, { commandMs: 100 }))));
    for (const url of networkUrls('HOST')) {
      await using server = await startSilentServer();
      await withOpenedSockets(async (sockets) => {
        const isInTime = async (): Promise<boolean> => {
          const opening = failure(openLocks(url.replace('HOST', server.host), { commandMs }));
          const first = await Promise.race([opening.then(() => true), turnsAfter(commandMs)]);
          expect((await opening).error, url).toMatchObject({ code: expect.stringMatching(/STORE|QUORUM/) });
          return first === true;
        };
        // A pause of the machine makes one of them late, a defect all of them.
        expect((await isInTime()) || (await isInTime()) || (await isInTime()), url).toBe(true);
        expect(sockets.length, url).toBeGreaterThan(0);
        if (LEAVES_SOCKETS.has(url)) return;
        expect(sockets.filter((socket) => !socket.destroyed).length, url).toBe(0);
        await eventually(`the server of ${url} has no connection`, () => server.sockets.size === 0);
      });
    }
  });

  it('unless connect is false', async () => {
    const all = [...networkUrls(REFUSED), ...networkUrls(silent.host)].map(async (url) => {
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
      const { code } = await closed(child);
      expect({ url, code, said }).toMatchObject({ code: 0, said: expect.stringMatching(/^(STORE|QUORUM)$/) });
    });
    await Promise.all(all);
  });
});

describe('while no server can be reached', () => {
  it.concurrent.each(networkUrls(REFUSED))(
    'one try on %s, and closing, end before commandMs',
    async (url) => {
      const locks = await openLocks(url, { connect: false });
      const { error, tookMs } = await failure(locks.mutex('a').tryAcquire());
      expect(error).toMatchObject({ applied: 'no' });
      expect(tookMs).toBeLessThan(SOON_MS);
      const closing = await failure(locks.close());
      expect(closing.error).toBe('resolved');
      expect(closing.tookMs).toBeLessThan(SOON_MS);
    },
  );

  it('closing does not wait for commandMs when nothing is held', async () => {
    const all = networkUrls(silent.host).map(async (url) => {
      const locks = await openLocks(url, { connect: false });
      await failure(locks.inspect('a'));
      const { tookMs } = await failure(locks.close());
      expect(tookMs, url).toBeLessThan(SOON_MS);
    });
    await Promise.all(all);
  });
});
