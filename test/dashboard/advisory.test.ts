import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  AuditList,
  EvictAnswer,
  LeaderList,
  LockDetail,
  LockList,
  SessionInfo,
  SnapshotEvent,
} from '../../src/dashboard/index.ts';
import { openLocks } from '../../src/index.ts';
import { type PostgresServer, startSharedPostgres } from '../support/servers/postgres.ts';
import { EventReader } from './support/event-source.ts';
import { type Served, serve } from './support/served.ts';

let postgres: PostgresServer;
let url: string;
let served: Served;
const warnings: Error[] = [];
const onWarning = (warning: Error): void => void warnings.push(warning);

beforeAll(async () => {
  postgres = await startSharedPostgres();
  url = await postgres.createDatabase();
  served = await serve({ locks: await openLocks(`${url}?mode=advisory`) });
  process.on('warning', onWarning);
});
afterAll(async () => {
  process.off('warning', onWarning);
  await served?.[Symbol.asyncDispose]();
  await postgres?.stop();
});

describe('on PostgreSQL advisory locks, which have keys instead of names', () => {
  it('the list has the locks of this process only, and the answers say so', async () => {
    const empty = await served.read<LockList>('/api/locks');
    expect([empty.locks, empty.total]).toEqual([[], 0]);
    const events = new EventReader((await served.get('/api/events')).body);
    expect((await events.until<SnapshotEvent>('snapshot')).locks).toEqual([]);
    await events.close();
    expect(await served.read<SessionInfo>('/api/session')).toMatchObject({
      ...{ store: 'postgres-advisory', isOrdered: false, listsOnlyOwn: true },
    });
    const candidate = served.locks.election('boss').start();
    await expect
      .poll(() => served.read<LeaderList>('/api/leaders'), { timeout: 20_000 })
      .toMatchObject({ leaders: [{ name: 'boss', leader: { owner: served.locks.owner }, isHere: true }] });
    await candidate.stop();
    const elsewhere = await openLocks(`${url}?mode=advisory`, { owner: 'elsewhere' });
    const leading = elsewhere.election('chief').start();
    await expect.poll(() => leading.isLeader, { timeout: 20_000 }).toBe(true);
    const standing = served.locks.election('chief').start();
    await expect
      .poll(() => served.read<LeaderList>('/api/leaders'), { timeout: 20_000 })
      .toMatchObject({ leaders: [{ name: 'chief', leader: { owner: 'elsewhere' }, isHere: false }] });
    await Promise.all([standing.stop(), leading.stop()]);
    await elsewhere.close();
    expect(warnings).toEqual([]);
  });

  it('a claim of another program is not evicted, and the answer says that nothing was done', async () => {
    const foreign = new pg.Client({ connectionString: url });
    await foreign.connect();
    await foreign.query("SELECT pg_advisory_lock(hashtextextended('theirs', 0))");
    const { holders } = await served.read<LockDetail>('/api/lock?name=theirs');
    const [{ id, fence } = { id: '', fence: null }] = holders;
    const answer = await served.post('/api/evict', { name: 'theirs', id, fence, confirm: 'theirs' });
    expect([answer.status, ((await answer.json()) as EvictAnswer).outcome]).toEqual([501, 'unsupported']);
    expect((await served.read<AuditList>('/api/audit')).entries).toMatchObject([{ outcome: 'unsupported' }]);
    expect((await served.read<LockDetail>('/api/lock?name=theirs')).holders).toHaveLength(1);
    await foreign.end();
  });
});
