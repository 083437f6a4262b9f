import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());
afterEach(() => stage.leaveAll());

const pings = async (): Promise<number> =>
  Number(/cmdstat_ping:calls=(\d+)/.exec(await stage.admin.info('commandstats'))?.[1] ?? 0);

/**
 * A proxy that records the order in which the server writes the message of a grant and the reply to the
 * release.
 */
async function startTap(): Promise<{ readonly url: string; readonly said: string[]; stop(): void }> {
  const said: string[] = [];
  const tap = createServer((client) => {
    const server = connect(stage.server.port, '127.0.0.1');
    server.setNoDelay(true);
    client.setNoDelay(true);
    server.on('data', (data) => {
      const text = data.toString();
      if (text.includes('\r\ng\n')) said.push('granted');
      if (/^(\+PONG\r\n)?:[12]\r\n$/.test(text)) said.push('answered');
    });
    client.pipe(server).pipe(client);
    for (const socket of [client, server]) socket.on('error', () => {});
  });
  tap.listen(0, '127.0.0.1');
  await once(tap, 'listening');
  return {
    url: `redis://127.0.0.1:${(tap.address() as AddressInfo).port}`,
    said,
    stop: () => void tap.close(),
  };
}

describe.each(LIBRARIES)('the order of a handoff, under %s', (library) => {
  it('the server notifies the next holder before it answers the last one', async () => {
    const tap = await startTap();
    const name = `told-first-${library}`;
    const [one, other] = await Promise.all([
      stage.locks(library, tap.url),
      stage.locks(library, tap.url),
    ] as const);
    const turns = 20;
    let first = 0;
    let hold = await one.mutex(name).acquire();
    for (let turn = 0; turn < turns; turn += 1) {
      const next = later((turn % 2 === 0 ? other : one).mutex(name).acquire());
      await eventually('the other one waits', async () => (await one.inspect(name)).waiters.length === 1);
      tap.said.length = 0;
      await hold.release();
      hold = await next;
      if (tap.said.join(' ') === 'granted answered') first += 1;
    }
    await hold.release();
    tap.stop();
    // Not all: the first waiter may not be subscribed yet, the first holder has not waited, and a busy
    // machine may split a packet.
    expect(first).toBeGreaterThan(turns * 0.7);
  });

  it('takes no further command if no claim has waited', async () => {
    const locks = await stage.locks(library, stage.server.url);
    const before = await pings();
    for (let turn = 0; turn < 20; turn += 1) await locks.mutex(`alone-${library}`).run(() => {});
    expect(await pings()).toBe(before);
  });
});
