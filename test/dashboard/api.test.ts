import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type {
  DeltaEvent,
  LeaderList,
  LockDetail,
  LockList,
  ScheduleList,
  SessionInfo,
  SnapshotEvent,
} from '../../src/dashboard/index.ts';
import { createLocks, memoryStore } from '../../src/index.ts';
import { schedule } from '../../src/schedule/index.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { EventReader } from './support/event-source.ts';
import { type Served, serve } from './support/served.ts';

let served: Served;
beforeAll(async () => {
  served = await serve();
});
afterAll(async () => {
  await served?.[Symbol.asyncDispose]();
});

const query = (fields: Record<string, string>): string => new URLSearchParams(fields).toString();
const list = (fields: Record<string, string>): Promise<LockList> =>
  served.read<LockList>(`/api/locks?${query(fields)}`);

describe('GET /api/locks', () => {
  it('shows holders and waiters of every lock', async () => {
    const { locks } = served;
    const hold = await locks.mutex('orders:7', { metadata: { job: 'billing' } }).acquire();
    const waiting = later(locks.mutex('orders:7').acquire());
    await eventually('the waiter', async () => (await locks.inspect('orders:7')).waiters.length === 1);
    await eventually('the list', async () => (await list({ prefix: 'orders:' })).locks[0]?.waiterCount === 1);
    const { locks: found, total, isTruncated } = await list({ prefix: 'orders:' });
    expect([total, isTruncated]).toEqual([1, false]);
    expect(found[0]).toMatchObject({
      ...{ name: 'orders:7', use: 'lock', kind: 'exclusive', permits: null, done: false },
      ...{ holderCount: 1, waiterCount: 1 },
      holders: [
        {
          id: hold.id,
          owner: locks.owner,
          fence: `${hold.fence}`,
          metadata: { job: 'billing' },
          leaseMs: expect.any(Number),
        },
      ],
    });
    await hold.release();
    await (await waiting).release();
  });
});

describe('GET /api/session', () => {
  it('says what the caller may do, and names the store and the owner', async () => {
    const session = await served.read<SessionInfo>('/api/session');
    expect(session).toEqual({
      ...{ role: 'operate', who: null, store: 'memory', owner: served.locks.owner },
      ...{ isOrdered: true, listsOnlyOwn: false },
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
    });
  });
});

describe('GET /api/lock', () => {
  it('shows one lock with its timeline and the durations of this process', async () => {
    const { locks } = served;
    await locks.mutex('detail').run(() => {});
    const hold = await locks.mutex('detail').acquire();
    const detail = await served.read<LockDetail>(`/api/lock?${query({ name: 'detail' })}`);
    expect(detail.lock).toMatchObject({ name: 'detail', holderCount: 1, waiterCount: 0 });
    expect(detail.holders).toMatchObject([{ id: hold.id }]);
    expect(detail.waits).toMatchObject({ count: 2 });
    expect(detail.holds).toMatchObject({ count: 1 });
    expect(detail.timeline.spans).toMatchObject([{ id: hold.id, state: 'held', isOpen: true }]);
    await hold.release();
  });
});

describe('GET /api/events', () => {
  it('sends the list, and then what changes', async () => {
    const { locks } = served;
    const answer = await served.get('/api/events');
    expect(answer.headers.get('content-type')).toBe('text/event-stream; charset=utf-8');
    const events = new EventReader(answer.body);
    await events.until<SnapshotEvent>('snapshot', ({ part }) => part === 0);
    const hold = await locks.mutex('live').acquire();
    const named = ({ name }: { name: string }): boolean => name === 'live';
    await events.until<DeltaEvent>('delta', ({ changed }) => changed.some(named));
    await hold.release();
    await events.until<DeltaEvent>('delta', ({ removed }) => removed.some(named));
    await events.close();
  });
});

describe('schedules and leaders', () => {
  it('are shown with their runs, slots and terms', async () => {
    const store = memoryStore();
    await using other = await serve({ store });
    const elsewhere = createLocks(store);
    const job = schedule(other.locks, 'nightly', '0 3 * * *', () => {});
    const candidate = other.locks.election('boss').start();
    const second = elsewhere.election('boss').start();
    await eventually('a leader and a candidate', async () => {
      const { leaders } = await other.read<LeaderList>('/api/leaders');
      return leaders[0]?.candidateCount === 2 && leaders[0].leader?.owner === other.locks.owner;
    });
    const { schedules } = await other.read<ScheduleList>('/api/schedules');
    expect(schedules).toEqual([
      {
        ...{ name: 'nightly', running: null, runningSlotMs: null, lastSlotMs: null, isLastDone: null },
        ...{ isKnownHere: true, nextSlotMs: job.next?.getTime() },
      },
    ]);
    await Promise.all([second.stop(), candidate.stop(), job.stop()]);
    await elsewhere.close();
  });
});
