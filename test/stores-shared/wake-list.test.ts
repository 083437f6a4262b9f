import { describe, expect, it } from 'vitest';
import type { PushedGrant, Waiter } from '../../src/store/store.ts';
import { WakeList } from '../../src/stores/shared/wake-list.ts';
import { virtualClock } from '../../src/testing/index.ts';

const TTL_MS = 30_000;
const GRANT: PushedGrant = { fence: 7n, validForMs: 20_000 };

/** A list, and claims of the lock `a` that record how they are woken. */
function stage(takeOverMs?: { readonly min: number; readonly max: number }) {
  const clock = virtualClock();
  const list = new WakeList(clock, takeOverMs);
  const woken: [id: string, grant: PushedGrant | null][] = [];
  const claim = (id: string) => ({ name: 'a', id, ttlMs: TTL_MS });
  const waiterOf = (id: string): Waiter => ({ wake: (grant) => void woken.push([id, grant ?? null]) });
  const wait = (...ids: string[]): void => {
    for (const id of ids) {
      list.add(claim(id), waiterOf(id));
      list.enqueue(claim(id));
    }
  };
  return { clock, list, woken, claim, waiterOf, wait };
}

describe('the first waiter of a process', () => {
  it('is the one that entered the queue first, however often the others ask again', () => {
    const { list, claim, waiterOf, wait } = stage();
    wait('1', '2');
    list.add(claim('1'), waiterOf('1'));
    list.enqueue(claim('1'));
    expect([list.isFirst('a', '1'), list.isFirst('a', '2')]).toEqual([true, false]);
  });

  it('is followed by the next one when it leaves, which asks when the hold ahead should end', async () => {
    const { clock, list, woken, claim, wait } = stage();
    wait('1', '2', '3');
    list.setDue('a', 5_000);
    await clock.advance(2_000);
    list.remove(claim('1'));
    expect(list.isFirst('a', '2')).toBe(true);
    await clock.advance(2_999);
    expect(woken).toEqual([]);
    await clock.advance(1);
    expect(woken).toEqual([['2', null]]);
  });

  it('is woken at once when it takes over after the hold ahead should have ended', async () => {
    const { clock, list, woken, claim, wait } = stage();
    wait('1', '2');
    list.setDue('a', 1_000);
    await clock.advance(4_000);
    list.remove(claim('1'));
    await clock.advance(0);
    expect(woken).toEqual([['2', null]]);
  });

  it('is not woken for the takeover of an earlier one', async () => {
    const { clock, list, woken, claim, wait } = stage({ min: 5_000, max: 5_000 });
    wait('1', '2', '3', '4');
    list.remove(claim('1'));
    await clock.advance(5_000);
    expect(woken).toEqual([['2', null]]);
    // It asks, is refused, and is granted a while later.
    await clock.advance(1_000);
    list.remove(claim('2'));
    await clock.advance(4_999);
    expect(woken).toEqual([['2', null]]);
    await clock.advance(1);
    expect(woken).toEqual([
      ['2', null],
      ['3', null],
    ]);
  });

  it('is not woken for a takeover behind it, nor after the last waiter has left', async () => {
    const { clock, list, woken, claim, wait } = stage();
    wait('1', '2');
    list.setDue('a', 1_000);
    list.remove(claim('2'));
    list.remove(claim('1'));
    expect([list.isEmpty, list.hasQueue('a')]).toEqual([true, false]);
    await clock.advance(60_000);
    expect(woken).toEqual([]);
  });
});

describe('wakeFirstIn', () => {
  it('wakes the first waiter after that time, whatever was set before', async () => {
    const { clock, list, woken, wait } = stage();
    wait('1', '2');
    list.setDue('a', 60_000);
    list.wakeFirstIn('a', 5_000);
    await clock.advance(5_000);
    expect(woken).toEqual([['1', null]]);
  });

  it('wakes whichever waiter is first by then', async () => {
    const { clock, list, woken, claim, wait } = stage();
    wait('1', '2');
    list.wakeFirstIn('a', 5_000);
    await clock.advance(1_000);
    list.remove(claim('1'));
    await clock.advance(4_000);
    expect(woken).toEqual([['2', null]]);
  });

  it('starts no timer for a lock without waiters', async () => {
    const { clock, list, woken, wait } = stage();
    list.wakeFirstIn('a', 1_000);
    wait('1');
    await clock.advance(60_000);
    expect(woken).toEqual([]);
  });
});

describe('push', () => {
  it('gives the grant to its waiter, and lets the next one ask after the TTL of that grant', async () => {
    const { clock, list, woken, wait } = stage();
    wait('1', '2');
    const first = list.get('1');
    if (first === undefined) throw new Error('claim 1 does not wait');
    list.push(first, GRANT);
    expect(woken).toEqual([['1', GRANT]]);
    expect([list.get('1'), list.isFirst('a', '2')]).toEqual([undefined, true]);
    await clock.advance(TTL_MS);
    expect(woken).toEqual([
      ['1', GRANT],
      ['2', null],
    ]);
  });

  it('may come before the answer to the claim, which then does not wait any more', () => {
    const { list, woken, claim, waiterOf } = stage();
    list.add(claim('1'), waiterOf('1'));
    const sent = list.get('1');
    if (sent === undefined) throw new Error('claim 1 was not added');
    list.push(sent, GRANT);
    expect(woken).toEqual([['1', GRANT]]);
    expect(list.enqueue(claim('1'))).toBe(null);
    expect([list.isEmpty, list.hasQueue('a')]).toEqual([true, false]);
  });
});

describe('a claim that asks again', () => {
  it('keeps the time at which it entered the queue, and its last waiter counts', async () => {
    const { clock, list, woken, claim, waiterOf, wait } = stage();
    wait('1');
    await clock.advance(3_000);
    list.add(claim('1'), waiterOf('1 again'));
    expect(list.enqueue(claim('1'))).toBe(3_000);
    list.wakeFirst('a');
    expect(woken).toEqual([['1 again', null]]);
  });
});
