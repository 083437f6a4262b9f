import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import pg from 'pg';
import postgres from 'postgres';
import { describe, expect, it, onTestFinished } from 'vitest';
import { openLocks } from '../../src/index.ts';
import type { ClaimOutcome } from '../../src/store/store.ts';
import { postgresLeaseStore } from '../../src/stores/postgres/index.ts';
import { parsePostgresUrl } from '../../src/stores/postgres/open.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { startFaultProxy } from '../../src/torture/servers/fault-proxy.ts';
import { eventually } from '../redis/support/stage.ts';
import { makePool, PG_LIBRARIES } from '../support/clients/postgres-pools.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { closeAndExit, EXITED_AT_ONCE } from '../support/process/close-and-exit.ts';
import { compiled } from '../support/process/compiled.ts';
import { startPostgres } from '../support/servers/postgres.ts';
import { startSilentServer } from '../support/servers/silent-server.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());

describe.each(PG_LIBRARIES)('under %s', (library) => {
  it('every mode works, and the pool is left alone', async () => {
    const pool = makePool(library, stage.url);
    const locks = stage.locks({ pool });
    await locks.withLock(`mutex-${library}`, (hold) => hold.assertHeld());
    await locks.readWriteLock(`rw-${library}`).read.run(() => {});
    await locks.semaphore(`permits-${library}`, { permits: 3 }).run(() => {}, { permits: 2 });
    expect(await locks.once(`once-${library}`, () => 1)).toEqual({ ran: true, value: 1 });
    expect(await locks.once(`once-${library}`, () => 1)).toEqual({ ran: false, why: 'done' });
    if (pool instanceof pg.Pool) expect(pool.totalCount).toBe(0);
  });

  it('an unclosed store keeps no process alive, though it renews and listens', async () => {
    const script = fileURLToPath(new URL('./support/lease-idler.ts', import.meta.url));
    const child = spawn(process.execPath, [compiled(script), stage.url, library], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    let output = '';
    child.stdout.on('data', (data: Buffer) => {
      output += data.toString();
    });
    const [code] = await once(child, 'close');
    expect([code, output]).toEqual([0, 'done\n']);
    await stage.query('SELECT holdfast.release(name, holder) FROM holdfast.locks WHERE holder IS NOT NULL');
  });
});

describe('by URL', () => {
  it('a query_timeout, which pg reads, leaves no timer behind', async () => {
    const url = `${stage.url}?query_timeout=300000`;
    const timers = (): number => process.getActiveResourcesInfo().filter((each) => each === 'Timeout').length;
    const before = timers();
    const store = stage.store({ url });
    for (let round = 0; round < 10; round += 1) {
      const held = request('time-out');
      expect((await store.claim(held)).granted).toBe(true);
      await store.release(held);
    }
    expect(timers() - before).toBeLessThan(10);
  });

  it.each(['postgres', 'postgresql'])('%s://', async (scheme) => {
    const url = stage.url.replace('postgres:', `${scheme}:`);
    const locks = await openLocks(`${url}?mode=lease&schema=by_url&application_name=by-url`);
    await locks.withLock('x', async () => {
      const rows = await stage.query("SELECT 1 FROM pg_stat_activity WHERE application_name = 'by-url'");
      expect(rows.length).toBe(1);
    });
    await locks.close();
    expect(await stage.query('SELECT name FROM by_url.locks')).toEqual([{ name: 'x' }]);
  });

  it('a process that closes it continues, and exits by itself', async () => {
    expect(await closeAndExit(`${stage.url}?mode=lease&schema=by_url`)).toBe(EXITED_AT_ONCE);
  });

  it('takes what is ours out of it, and leaves the rest as it is', () => {
    expect(parsePostgresUrl('postgres://u:p%40@a:1,b:2/db?sslmode=require&mode=advisory&schema=s')).toEqual({
      rest: 'postgres://u:p%40@a:1,b:2/db?sslmode=require',
      mode: 'advisory',
      schema: 's',
    });
    expect(parsePostgresUrl('postgres://h/db')).toEqual({
      rest: 'postgres://h/db',
      mode: 'lease',
      schema: undefined,
    });
  });

  it('the error of a bad mode does not contain the password', async () => {
    const error = await openLocks('postgres://me:secret@h/db?mode=both').catch((reason: Error) => reason);
    expect(error).toMatchObject({ code: 'INVALID_ARGUMENT', argument: 'url' });
    expect(String(error)).not.toContain('secret');
  });

  it.each(['schema=%zz', 'mode=%'])('%s is refused', (query) => {
    expect(() => parsePostgresUrl(`postgres://h/db?${query}`)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT', argument: 'url' }),
    );
  });

  it('the error of a wrong password does not contain the password', async () => {
    const url = stage.url.replace('postgres@', 'nobody:secret@');
    const error = await openLocks(url).catch((reason: Error) => reason);
    expect(error).toMatchObject({
      code: 'STORE',
      applied: 'no',
      cause: { code: expect.stringMatching(/^(28P01|28000)$/) },
    });
    expect(
      JSON.stringify(error, Object.getOwnPropertyNames(error)) + String((error as Error).cause),
    ).not.toContain('secret');
  });
});

it.each([null, 5, {}, 'postgres://h/db', () => {}])('a value that is not a pool is refused: %s', (pool) => {
  expect(() => postgresLeaseStore(pool as never)).toThrow(
    expect.objectContaining({ code: 'INVALID_ARGUMENT', argument: 'pool' }),
  );
});

describe('postgres.js with several hosts', () => {
  const { username, pathname, port } = new URL(stage.url);
  const usable = Number(port);
  const poolOf = (ports: number[], options: object = {}) => {
    const settings = { host: ports.map(() => '127.0.0.1'), port: ports, user: username };
    return postgres({ ...settings, database: pathname.slice(1), ...options } as never);
  };

  it('passes over one that refuses connections', async () => {
    const store = stage.store({ pool: poolOf([1, usable]) });
    expect(await store.claim(request('second host'))).toMatchObject({ granted: true });
  });

  it('passes over one that does not answer', async () => {
    const silent = await unreachablePort();
    const store = stage.store({ pool: poolOf([silent.port, usable]) });
    expect(await store.claim(request('answering host'))).toMatchObject({ granted: true });
    silent.end();
  });

  it('passes over one that accepts and does not answer, once it has failed to connect', async () => {
    await using silent = await startSilentServer();
    const store = stage.store({ pool: poolOf([Number(silent.host.split(':')[1]), usable]) });
    const asked = request('host that is not silent');
    // An attempt to connect takes 5 s at most.
    await eventually('the next host is tried', () => store.claim(asked).then(isGranted, () => false), 40_000);
    expect(silent.sockets.size).toBe(0);
  }, 60_000);

  it('comes back to one that answers again, when the other cannot be used', async () => {
    const settings = { default_transaction_read_only: 'on' };
    const readOnly = await startPostgres({ settings });
    onTestFinished(() => readOnly.stop());
    await using proxy = await startFaultProxy(usable);
    proxy.drop('both');
    const ports = [proxy.port, Number(new URL(readOnly.url).port)];
    const store = stage.store({ pool: poolOf(ports, { database: 'postgres' }) });
    const asked = request('first host');
    const failure = async (): Promise<string> => await store.claim(asked).then(() => 'none', String);
    expect(await failure()).not.toContain('read only');
    await eventually('the other is tried', async () => (await failure()).includes('read only'), 40_000);
    proxy.pass();
    await eventually('the first is used', () => store.claim(asked).then(isGranted, () => false), 40_000);
  }, 120_000);

  it('passes over one that is not what target_session_attrs asks for', async () => {
    const settings = { default_transaction_read_only: 'on' };
    const readOnly = await startPostgres({ settings });
    onTestFinished(() => readOnly.stop());
    const ports = [Number(new URL(readOnly.url).port), usable];
    const pool = poolOf(ports, { target_session_attrs: 'read-write', database: 'postgres' });
    expect(await stage.store({ pool }).claim(request('writable host'))).toMatchObject({ granted: true });
  });

  it('connects once to one that closes each connection', async () => {
    let connections = 0;
    const closing = createServer((socket) => {
      connections += 1;
      socket.once('data', () => socket.end());
    });
    await once(closing.listen(0, '127.0.0.1'), 'listening');
    const store = stage.store({ pool: poolOf([(closing.address() as AddressInfo).port]) });
    await expect(store.claim(request('closing host'))).rejects.toMatchObject({ applied: 'no' });
    expect(connections).toBe(1);
    closing.close();
  });

  it('says why none can be used', async () => {
    const error = await stage
      .store({ pool: poolOf([1, 2]) })
      .claim(request('no host'))
      .catch(String);
    expect(error).toContain('ECONNREFUSED');
  });
});

const isGranted = ({ granted }: ClaimOutcome): boolean => granted;

/** A port whose server does not accept, and whose queue of connections is full. */
async function unreachablePort(): Promise<{ readonly port: number; end(): void }> {
  const program =
    "net.createServer().listen({ port: 0, host: '127.0.0.1', backlog: 1 }, function () {\n" +
    'console.log(this.address().port) })';
  const server = spawn(process.execPath, ['-e', program], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [line] = await once(server.stdout, 'data');
  const port = Number(line);
  server.kill('SIGSTOP');
  const sockets: Socket[] = [];
  for (let isFull = false; !isFull; ) {
    const socket = connect(port, '127.0.0.1').on('error', () => {});
    sockets.push(socket);
    isFull = await Promise.race([once(socket, 'connect').then(() => false), sleep(300, true)]);
  }
  return {
    port,
    end() {
      for (const socket of sockets) socket.destroy();
      server.kill('SIGKILL');
    },
  };
}

it('idle connections are closed, and opened again', async () => {
  const clock = virtualClock();
  const pool = new pg.Pool({ connectionString: stage.url, application_name: 'resting' });
  const store = postgresLeaseStore(pool, { clock });
  const open = async (): Promise<number> =>
    (await stage.query("SELECT 1 FROM pg_stat_activity WHERE application_name = 'resting'")).length;
  const [held, waiter] = [request('rest'), request('rest', { wait: true })];
  for (let round = 0; round < 2; round += 1) {
    await store.claim(held);
    await store.claim(waiter);
    const watch = await store.watch(waiter, () => {});
    expect(await open()).toBe(2);
    await watch[Symbol.asyncDispose]();
    await store.release(waiter);
    await eventually('both are closed', async () => {
      await clock.advance(2_500);
      return (await open()) === 0;
    });
  }
  expect(await store.release(held)).toBe(true);
  await store.close();
});

it('passwords that pg hides are found, and text types that the user has changed are not', async () => {
  const { username, pathname, port } = new URL(stage.url);
  const pool = new pg.Pool({
    host: '127.0.0.1',
    port: Number(port),
    user: username,
    password: 'any',
    database: pathname.slice(1),
    types: { getTypeParser: () => () => 'nonsense' } as never,
  });
  const store = stage.store({ pool });
  expect(await store.claim(request('typed'))).toMatchObject({ granted: true });
  expect(await store.read('typed')).toHaveLength(1);
});
