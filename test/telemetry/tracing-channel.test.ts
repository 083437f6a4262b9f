import { AsyncLocalStorage } from 'node:async_hooks';
import { tracingChannel } from 'node:diagnostics_channel';
import { afterEach, describe, expect, it } from 'vitest';
import { createLocks, type Locks, memoryStore } from '../../src/index.ts';

const traces = tracingChannel('holdfast:acquire');
const open: Locks[] = [];

afterEach(async () => {
  await Promise.all(open.splice(0).map((locks) => locks.close({ drainMs: 0 })));
});

function opened(): Locks {
  const locks = createLocks(memoryStore());
  open.push(locks);
  return locks;
}

describe('the tracing channel holdfast:acquire', () => {
  it('shows the start, the end and the failure of every attempt of the process', async () => {
    const seen: string[] = [];
    const note = (kind: string) => (message: unknown) => {
      const { name, outcome } = message as { name: string; outcome: string | null };
      seen.push(`${kind} ${name} ${outcome}`);
    };
    const [start, error, asyncEnd] = [note('start'), note('error'), note('end')];
    traces.start.subscribe(start);
    traces.error.subscribe(error);
    traces.asyncEnd.subscribe(asyncEnd);
    try {
      const locks = opened();
      const hold = await locks.mutex('channel').acquire();
      await expect(locks.mutex('channel').acquire({ waitMs: 5 })).rejects.toThrow();
      await hold.release();
    } finally {
      traces.start.unsubscribe(start);
      traces.error.unsubscribe(error);
      traces.asyncEnd.unsubscribe(asyncEnd);
    }
    expect(seen).toEqual([
      'start channel null',
      'end channel acquired',
      'start channel null',
      'error channel timeout',
      'end channel timeout',
    ]);
  });

  it('runs every attempt in the stores that are bound to it, and the caller outside of them', async () => {
    const bound = new AsyncLocalStorage<string>();
    traces.start.bindStore(bound, (message) => `attempt at ${(message as { name: string }).name}`);
    try {
      const locks = opened();
      const seen: [string, string | undefined][] = [];
      for (const event of ['waiting', 'acquired', 'refused'] as const)
        locks.on(event, ({ name }) => seen.push([`${event} ${name}`, bound.getStore()]));
      const first = await locks.mutex('a').acquire();
      expect(bound.getStore()).toBeUndefined();
      expect(await locks.mutex('a').tryAcquire()).toBeNull();
      const second = locks.mutex('a').acquire();
      await expect.poll(() => seen.at(-1)?.[0]).toBe('waiting a');
      await first.release();
      await (await second).release();
      expect(seen).toEqual([
        ['acquired a', 'attempt at a'],
        ['refused a', 'attempt at a'],
        ['waiting a', 'attempt at a'],
        ['acquired a', 'attempt at a'],
      ]);
    } finally {
      traces.start.unbindStore(bound);
    }
  });
});
