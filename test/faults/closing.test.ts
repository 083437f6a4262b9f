import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { outputOf } from '../support/process/close-and-exit.ts';
import { networkUrls } from '../support/servers/network-urls.ts';

const CLOSE_WHILE_CONNECTING = fileURLToPath(
  new URL('../support/process/close-while-connecting.ts', import.meta.url),
);
/** No server listens on this port. */
const REFUSED = '127.0.0.1:1';

let redis: Server;
/** Accepts connections and never answers. */
const silent = createServer((socket) => {
  socket.on('error', () => {});
  socket.resume();
});

beforeAll(async () => {
  redis = await startRedis();
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
});

afterAll(async () => {
  silent.close();
  await redis.stop();
});

describe('locks that are closed while their client is still connecting', () => {
  it('let the process end, with every client and every kind of answer', async () => {
    const mute = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const said: string[] = [];
    for (const without of ['', 'ioredis']) {
      const urls = [redis.url, `redis://${mute}`, `redis://${REFUSED}`];
      said.push(...(await Promise.all(urls.map((url) => outputOf(CLOSE_WHILE_CONNECTING, [url, without])))));
    }
    expect(said).toEqual(Array(6).fill('closed'));
  });
});

describe('closing', () => {
  // An unhandled rejection would fail the run.
  it('can be called twice, at once or later, on locks of every store', async () => {
    const urls = (address: string): string[] => [
      'memory:',
      `sqlite:${join(tmpdir(), `holdfast-closing-${process.pid}.db`)}`,
      ...networkUrls(address),
    ];
    const mute = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const startedMs = performance.now();
    const all = [...urls(REFUSED), ...urls(mute)].map(async (url) => {
      const locks = await openLocks(url, { connect: false });
      await Promise.all([locks.close({ drainMs: 0 }), locks.close()]);
      await locks.close();
      await expect(locks.mutex('a').acquire(), url).rejects.toMatchObject({ code: 'CLOSED' });
    });
    await Promise.all(all);
    expect(performance.now() - startedMs).toBeLessThan(11_000);
  });

  it('ends the calls that wait for a first connection', async () => {
    const urls = [
      `redlock://${REFUSED}`,
      `postgres://u@${REFUSED}/x`,
      `postgres://u@${REFUSED}/x?mode=advisory`,
      `mysql://u@${REFUSED}/x`,
    ];
    const all = urls.map(async (url) => {
      const locks = await openLocks(url, { connect: false });
      const waiting = locks.mutex('a').acquire({ waitMs: 60_000 });
      const refused = expect(waiting, url).rejects.toMatchObject({ code: 'CLOSED' });
      await Promise.all([locks.close({ drainMs: 0 }), locks.close()]);
      await refused;
    });
    await Promise.all(all);
  });
});
