import { beforeAll, expect, it } from 'vitest';
import { useStage } from '../support/hooks/use-stage.ts';
import { later } from '../support/waiting/eventually.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const stage = await useStage(LeaseStage.start());
beforeAll(async () => {
  await stage.store().claim(request('warm'));
});

const psql = (script: string): string => stage.server.psql(stage.url, script);

it('plain psql and the library exclude each other, and see each other', async () => {
  const locks = stage.locks();
  const [granted, fence, retry] = psql(
    "SELECT * FROM holdfast.claim('job', 'cron-host:1', note => '{\"by\":\"cron\"}')",
  ).split('|');
  expect([granted, retry]).toEqual(['t', '']);
  expect(await locks.mutex('job').tryAcquire()).toBeNull();
  const [holder] = (await locks.inspect('job')).holders;
  expect(holder).toMatchObject({
    id: 'cron-host:1',
    owner: null,
    fence: BigInt(fence ?? 0),
    metadata: { by: 'cron' },
  });
  expect(psql("SELECT holdfast.renew('job', 'cron-host:1', 60000), holdfast.renew('job', 'another')")).toBe(
    't|f',
  );
  expect(psql("SELECT holdfast.list('jo')")).toBe('job');

  // Our waiter is woken by a release from psql.
  const waiting = later(locks.mutex('job').acquire());
  await expect.poll(async () => (await locks.inspect('job')).waiters.length).toBe(1);
  expect(psql("SELECT holdfast.release('job', 'cron-host:1'), holdfast.release('job', 'cron-host:1')")).toBe(
    't|f',
  );
  const hold = await waiting;
  expect(hold.fence).toBeGreaterThan(BigInt(fence ?? 0));

  // And psql waits for us.
  const ask = (): string => psql("SELECT granted FROM holdfast.claim('job', 'cron-host:2', wait => true)");
  expect(ask()).toBe('f');
  expect(psql("SELECT id, granted FROM holdfast.read('job')")).toBe(`${hold.id}|t\ncron-host:2|f`);
  await hold.release();
  expect(ask()).toBe('t');
  psql("SELECT holdfast.release('job', 'cron-host:2')");
});

it('shared locks and permits, with their errors', () => {
  const claim = (id: string, rest: string): string =>
    psql(`SELECT granted FROM holdfast.claim('rw', '${id}', ${rest})`);
  expect([claim('a', 'count => 1'), claim('b', 'count => 1'), claim('c', 'count => 0')]).toEqual([
    't',
    't',
    'f',
  ]);
  expect(() => claim('d', 'count => 2, permits => 3')).toThrow(/in use with another mode/);
  psql("SELECT holdfast.release('rw', 'a'), holdfast.release('rw', 'b')");
  expect([
    claim('d', 'count => 2, permits => 3'),
    claim('e', 'count => 2, permits => 3'),
    claim('f', 'count => 1, permits => 3'),
  ]).toEqual(['t', 'f', 't']);
});

it.each([
  "'', 'id'",
  "'name', NULL",
  "'name', 'id', 0",
  "'name', 'id', count => 2",
  "'name', 'id', count => 4, permits => 3",
  "'name', 'id', permits => 3",
])('a claim that makes no sense is refused: %s', (given) => {
  expect(() => psql(`SELECT * FROM holdfast.claim(${given})`)).toThrow(/a claim needs|count, permits must/);
});

it('a client that sleeps in its own transaction does not make ours wait', async () => {
  const store = stage.store();
  const other = await stage.admin.connect();
  await other.query("BEGIN; SELECT * FROM holdfast.claim('long', 'sleeper')");
  await expect(store.claim(request('long'))).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  expect(await store.claim(request('short'))).toMatchObject({ granted: true });
  await other.query('COMMIT');
  other.release();
  expect(await store.claim(request('long'))).toMatchObject({ granted: false });
});
