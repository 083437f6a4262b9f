import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { AuditList, EvictAnswer } from '../../src/dashboard/index.ts';
import { createLocks, type Hold, memoryStore } from '../../src/index.ts';
import { faultyStore } from '../../src/testing/index.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { type Served, serve } from './support/served.ts';

let failing = false;
const store = faultyStore(memoryStore(), ({ verb }) => (failing && verb === 'evict' ? 'fail' : null));
let served: Served;
beforeAll(async () => {
  const access = (request: Request) =>
    ({ role: request.headers.get('x-role') === 'read' ? 'read' : 'operate', who: 'ann' }) as const;
  served = await serve({ store, access });
});
afterAll(async () => {
  await served?.[Symbol.asyncDispose]();
});

const claimOf = ({ name, id, fence }: Hold) => ({ name, id, fence: `${fence}`, confirm: name });
async function evict(body: unknown, headers = {}): Promise<[number, EvictAnswer]> {
  const answer = await served.post('/api/evict', body, headers);
  return [answer.status, (await answer.json()) as EvictAnswer];
}

describe('POST /api/evict', () => {
  it('takes exactly the claim away that was shown, and lists it', async () => {
    const hold = await served.locks.mutex('stuck').acquire();
    expect(await evict(claimOf(hold))).toEqual([200, { outcome: 'evicted', holders: [] }]);
    await expect(hold.extend()).rejects.toMatchObject({ code: 'HOLD_LOST' });
    const { entries } = await served.read<AuditList>('/api/audit');
    expect(entries[0]).toEqual({
      ...{ atMs: expect.any(Number), who: 'ann', name: 'stuck', use: 'lock', id: hold.id },
      ...{ fence: `${hold.fence}`, owner: served.locks.owner, outcome: 'evicted' },
    });
  });

  it('leaves a newer claim alone, and names its holder', async () => {
    const old = await served.locks.mutex('moved').acquire();
    await old.release();
    const other = createLocks(store, { owner: 'other-host' });
    const current = await other.mutex('moved').acquire();
    const [status, answer] = await evict(claimOf(old));
    expect([status, answer.outcome]).toEqual([409, 'gone']);
    expect(answer.holders).toMatchObject([
      { id: current.id, owner: 'other-host', fence: `${current.fence}` },
    ]);
    expect(current.signal.aborted).toBe(false);
    expect((await served.locks.inspect('moved')).holders).toHaveLength(1);
    await other.close({ drainMs: 0 });
  });

  it('leaves a claim alone that waited when it was shown and holds the lock now', async () => {
    const first = await served.locks.mutex('promoted').acquire();
    const waiting = later(served.locks.mutex('promoted').acquire());
    const waiters = async () => (await served.locks.inspect('promoted')).waiters;
    await eventually('the waiter', async () => (await waiters()).length === 1);
    const [shown] = await waiters();
    await first.release();
    const hold = await waiting;
    const body = { name: 'promoted', id: shown?.id, fence: null, confirm: 'promoted' };
    expect((await evict(body))[1]).toMatchObject({ outcome: 'changed', holders: [{ id: hold.id }] });
    expect((await served.locks.inspect('promoted')).holders).toMatchObject([{ id: hold.id }]);
    await hold.release();
  });

  it('takes a queue position away', async () => {
    const hold = await served.locks.mutex('queue').acquire();
    const given = new AbortController();
    const waiting = later(served.locks.mutex('queue').acquire({ signal: given.signal }));
    const waiters = async () => (await served.locks.inspect('queue')).waiters;
    await eventually('the waiter', async () => (await waiters()).length === 1);
    const id = (await waiters())[0]?.id;
    const [status, answer] = await evict({ name: 'queue', id, fence: null, confirm: 'queue' });
    expect([status, answer.outcome]).toEqual([200, 'evicted']);
    expect(await waiters()).toEqual([]);
    given.abort();
    await expect(waiting).rejects.toThrow();
    await hold.release();
  });

  it('says that the outcome is not known when the store fails, and lists that', async () => {
    const hold = await served.locks.mutex('unknown').acquire();
    failing = true;
    const [status, answer] = await evict(claimOf(hold)).finally(() => {
      failing = false;
    });
    expect([status, answer]).toEqual([503, { outcome: 'failed', holders: null }]);
    const { entries } = await served.read<AuditList>('/api/audit');
    expect(entries[0]).toMatchObject({ name: 'unknown', outcome: 'failed' });
    await hold.release();
  });

  it('needs the role operate', async () => {
    const hold = await served.locks.mutex('guarded').acquire();
    expect((await evict(claimOf(hold), { 'x-role': 'read' }))[0]).toBe(403);
    expect((await served.locks.inspect('guarded')).holders).toHaveLength(1);
    expect((await served.get('/api/locks', { 'x-role': 'read' })).status).toBe(200);
    await hold.release();
  });

  it.each([
    ['a name that was typed wrongly', { confirm: 'bad-body ' }],
    ['no confirmation', { confirm: undefined }],
    ['no claim', { id: '' }],
    ['a fence that is a number', { fence: 7 }],
    ['an unknown use', { use: 'mutex' }],
  ])('refuses %s', async (_what, change) => {
    const hold = await served.locks.mutex('bad-body').acquire();
    expect((await evict({ ...claimOf(hold), ...change }))[0]).toBe(400);
    expect((await served.locks.inspect('bad-body')).holders).toHaveLength(1);
    await hold.release();
  });

  it('keeps the latest 200 entries', async () => {
    for (let n = 0; n < 205; n += 1) {
      const body = JSON.stringify({ name: `n${n}`, id: 'x', fence: null, confirm: `n${n}` });
      const headers = { 'content-type': 'application/json' };
      const request = new Request(`${served.url}/api/evict`, { method: 'POST', headers, body });
      expect((await served.dashboard.fetch(request)).status).toBe(409);
    }
    const { entries } = await served.read<AuditList>('/api/audit');
    expect([entries.length, entries[0]?.name, entries.at(-1)?.name]).toEqual([200, 'n204', 'n5']);
  });
});
