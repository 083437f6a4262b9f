import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import { createLocks, type Locks, openLocks } from '../../src/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { exchange } from '../../src/torture/servers/ports.ts';
import { cleanups } from '../support/hooks/cleanups.ts';
import { itEndsWithItsProcess, type SessionSubject, startTaker } from '../support/process/session-holders.ts';
import { startEnsemble } from '../support/servers/zookeeper.ts';
import { eventually, later } from '../support/waiting/eventually.ts';

const SESSION_MS = 2_000;
/** The rest is for a busy machine: a waiter that nothing wakes asks again after ten seconds. */
const FREED_MS = SESSION_MS + 6_500;
// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 4 });
const atTheEnd = cleanups();
const ensemble = await startEnsemble({ members: 1, maxSessionMs: 20_000 });
atTheEnd(() => ensemble.stop());

function open(): Locks {
  const locks = createLocks(zookeeperStore(ensemble.client({ sessionMs: 10_000 })), { waitMs: 20_000 });
  atTheEnd(() => locks.close({ drainMs: 0 }));
  return locks;
}

const subject: SessionSubject = {
  url: `${ensemble.url}?sessionMs=${SESSION_MS}`,
  open,
  atTheEnd,
  freedWithinMs: FREED_MS,
  pausedLoss: 'session',
  titles: {
    killed: 'row 6: is killed, and the next waiter holds within a second after its session ends',
    paused: 'row 1: is paused for longer than its session: another holds before it resumes',
    left: 'row 7: is not kept alive by its hold',
  },
};

describe.concurrent('a process that holds a lock of ZooKeeper', () => {
  itEndsWithItsProcess(subject);

  it('waits and is paused: waiters behind it continue when its session ends', async () => {
    const [first, third] = [open(), open()];
    const hold = await first.mutex('waiter-paused').acquire();
    const queued = (count: number): Promise<void> =>
      eventually(`${count} are queued`, async () => {
        const { waiters } = await third.inspect('waiter-paused');
        return waiters.length === count;
      });
    const { child, output } = startTaker(subject, 'waiter-paused', 'stay');
    await queued(1);
    const waiting = later(third.mutex('waiter-paused').acquire());
    await queued(2);
    // Not before: a paused process leaves the queue when its session ends.
    child.kill('SIGSTOP');
    await hold.release();
    const releasedAt = performance.now();
    await first.close();
    const next = await waiting;
    expect(performance.now() - releasedAt).toBeLessThan(FREED_MS);
    child.kill('SIGCONT');
    await sleep(500);
    next.assertHeld();
    expect(output).toEqual([]);
    await next.release();
    await eventually('the resumed process waits again, and holds', () => output.length > 0);
  });

  it('leaves no session behind when it closes the store while the store connects', async () => {
    const port = ensemble.members[0]?.port ?? 0;
    for (let turns = 0; turns < 6; turns += 1) {
      const locks = await openLocks(`${ensemble.url}/turn-${turns}?sessionMs=4000`);
      const seen = locks.inspect('x').catch(() => null);
      for (let turn = 0; turn < turns; turn += 1) await null;
      await locks.close();
      await seen;
    }
    // A session that began after the close would never end.
    await sleep(500);
    await eventually(
      'no session is left',
      async () => !(await exchange(port, 'cons\n', 5_000)).includes(',to=4000,'),
    );
  });
});
