import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createLocks, type LockEvents, type Locks, memoryStore, type Store } from '../../src/index.ts';
import { instrument } from '../../src/telemetry/index.ts';
import { faultyStore } from '../../src/testing/index.ts';
import { startTelemetry } from '../support/telemetry/start-telemetry.ts';

let telemetry: ReturnType<typeof startTelemetry>;
const open: Locks[] = [];

beforeEach(() => {
  telemetry = startTelemetry();
});
afterEach(async () => {
  await Promise.all(open.splice(0).map((locks) => locks.close({ drainMs: 0 })));
  await telemetry.stop();
});

/** Locks with telemetry, and the `refused` events that they emit. */
function observed(store: Store): { locks: Locks; refused: LockEvents['refused'][] } {
  // Closing waits for a claim without an answer for as long as a command may take.
  const locks = createLocks(store, { commandMs: 500 });
  open.push(locks);
  instrument(locks, telemetry.providers);
  const refused: LockEvents['refused'][] = [];
  locks.on('refused', (event) => refused.push(event));
  return { locks, refused };
}

async function outcomes(): Promise<unknown[]> {
  const points = await telemetry.points('holdfast.wait.duration');
  return points.map(({ attributes }) => attributes['holdfast.outcome']).sort();
}

/** Calls whose claim is never answered. */
const CALLS = {
  acquire: (locks: Locks, signal?: AbortSignal) => locks.mutex('a').acquire({ signal }),
  tryAcquire: (locks: Locks, signal?: AbortSignal) => locks.mutex('a').tryAcquire({ signal }),
};

describe.each(Object.entries(CALLS))('%s, while the first claim is pending', (_, call) => {
  const silent = () => faultyStore(memoryStore(), ({ verb }) => (verb === 'claim' ? 'hang' : null));

  it('that is aborted was not failed by the store', async () => {
    const { locks, refused } = observed(silent());
    const abort = new AbortController();
    const pending = call(locks, abort.signal);
    abort.abort(new Error('not needed any more'));
    await expect(pending).rejects.toThrow('not needed any more');
    expect(await outcomes()).toEqual(['aborted']);
    expect(refused).toMatchObject([{ why: 'aborted', error: { message: 'not needed any more' } }]);
  });

  it('that close ends was not failed by the store', async () => {
    const { locks, refused } = observed(silent());
    const pending = expect(call(locks)).rejects.toMatchObject({ code: 'CLOSED' });
    await locks.close({ drainMs: 0 });
    await pending;
    expect(await outcomes()).toEqual(['aborted']);
    expect(refused).toMatchObject([{ why: 'aborted', error: { code: 'CLOSED' } }]);
  });
});

describe('a refusal that no wait can change', () => {
  it('by a full queue is not a failure of the store', async () => {
    const { locks, refused } = observed(memoryStore({ queueMax: 1 }));
    await locks.mutex('a').acquire();
    const waiting = locks
      .mutex('a')
      .acquire()
      .catch(() => {});
    await expect(locks.mutex('a').acquire()).rejects.toMatchObject({ code: 'QUEUE_FULL' });
    expect(await outcomes()).toEqual(['acquired', 'held']);
    expect(refused).toMatchObject([{ why: 'held', error: { code: 'QUEUE_FULL' } }]);
    await locks.close({ drainMs: 0 });
    await waiting;
  });

  it('by another kind of lock is not a failure of the store', async () => {
    const { locks, refused } = observed(memoryStore());
    await locks.semaphore('a', { permits: 2 }).acquire();
    await expect(locks.semaphore('a', { permits: 3 }).acquire()).rejects.toMatchObject({
      code: 'MODE_MISMATCH',
    });
    expect(await outcomes()).toEqual(['acquired', 'held']);
    expect(refused).toMatchObject([{ why: 'held', error: { code: 'MODE_MISMATCH' } }]);
    const span = telemetry.spans().find(({ attributes }) => attributes['holdfast.outcome'] === 'held');
    expect(span?.status.message).toMatch(/permits/);
  });
});
