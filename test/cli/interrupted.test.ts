import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Locks, openLocks } from '../../src/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { start, stopAll } from './support/holdfast.ts';

let server: Server;
let locks: Locks;
beforeAll(async () => {
  server = await startRedis();
  locks = await openLocks(server.url);
});
afterAll(async () => {
  await stopAll();
  await locks.close({ drainMs: 0 });
  await server.stop();
});

/** A proxy that lets the message of a grant through, and holds back every reply after it. */
class GrantTap implements Disposable {
  readonly #sockets = new Set<Socket>();
  readonly #held: (() => void)[] = [];
  readonly #listener = createServer((client) => this.#accept(client));
  #subscriber: Socket | null = null;
  #isClaimed = false;
  #isGranted = false;
  #isPassing = false;
  /** The waiter has claimed again since it is subscribed: the server pushes the grant to it. */
  isSubscribed = false;
  /** A command was sent after the grant. */
  isAsked = false;

  async listen(): Promise<string> {
    this.#listener.listen(0, '127.0.0.1');
    await once(this.#listener, 'listening');
    return `redis://127.0.0.1:${(this.#listener.address() as AddressInfo).port}`;
  }

  pass(): void {
    this.#isPassing = true;
    for (const write of this.#held.splice(0)) write();
  }

  [Symbol.dispose](): void {
    this.#listener.close();
    for (const socket of this.#sockets) socket.destroy();
  }

  #accept(client: Socket): void {
    const redis = connect(server.port, '127.0.0.1');
    for (const socket of [client, redis]) {
      this.#sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.on('close', () => redis.destroy());
    }
    client.on('data', (data) => {
      if (this.#isGranted) this.isAsked = true;
      if (this.#subscriber !== null && client !== this.#subscriber) this.#isClaimed = true;
      redis.write(data);
    });
    redis.on('data', (data) => this.#onReply(client, data));
    redis.on('close', () => client.destroy());
  }

  #onReply(client: Socket, data: Buffer): void {
    const text = data.toString();
    if (/\r\ns?subscribe\r\n/.test(text)) this.#subscriber = client;
    else if (this.#isClaimed && client !== this.#subscriber) this.isSubscribed = true;
    const isHeld = this.#isGranted && !this.#isPassing;
    if (text.includes('\r\ng\n')) this.#isGranted = true;
    if (isHeld) this.#held.push(() => client.write(data));
    else client.write(data);
  }
}

/** The process has ended, or waits for events and has taken every signal that was sent to it. */
function isIdle({ pid, exitCode }: ChildProcess): boolean {
  if (exitCode !== null) return true;
  const status = readFileSync(`/proc/${pid}/status`, 'utf8');
  return /^State:\s+S/m.test(status) && !/^(?:Sig|Shd)Pnd:\s.*[1-9a-f]/m.test(status);
}

it('a signal between the grant and the start of the command ends holdfast run', async () => {
  using tap = new GrantTap();
  const name = 'interrupted';
  const hold = await locks.mutex(name).acquire();
  const args = ['run', name, '--wait', '5m', '--store', await tap.listen(), '--', 'echo', 'started'];
  const waiting = await start(args);
  await eventually('it waits for a message', () => tap.isSubscribed);
  await hold.release();
  // A pushed grant is short: it is extended before the command is started.
  await eventually('the grant is being extended', () => tap.isAsked);
  waiting.child.kill('SIGTERM');
  await eventually('the signal is noticed', () => isIdle(waiting.child));
  tap.pass();
  expect(await waiting.result()).toEqual({ code: 143, stdout: '', stderr: '' });
  await eventually('released', async () => (await locks.inspect(name)).holders.length === 0);
});
