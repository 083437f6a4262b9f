import { describe, expect, it } from 'vitest';
import {
  type ConnectionEvents,
  Subscription,
  type SubscriptionOptions,
} from '../../src/stores/shared/subscription.ts';
import { virtualClock } from '../../src/testing/index.ts';

/** A connection that the test controls. */
interface FakeConnection {
  readonly events: ConnectionEvents<string>;
  isClosed: boolean;
  answers: boolean | Error;
}

function setUp(options: Partial<SubscriptionOptions<string>> = {}) {
  const clock = virtualClock();
  const connections: FakeConnection[] = [];
  const log: string[] = [];
  const state = { isWanted: true };
  const subscription = new Subscription<string>({
    clock,
    open: (events) => {
      const connection: FakeConnection = { events, isClosed: false, answers: true };
      connections.push(connection);
      return {
        close: async () => {
          connection.isClosed = true;
        },
        checkAlive: () => {
          if (connection.answers instanceof Error) return Promise.reject(connection.answers);
          return connection.answers ? Promise.resolve() : new Promise(() => {});
        },
      };
    },
    isWanted: () => state.isWanted,
    onUp: () => log.push('up'),
    onDown: () => log.push('down'),
    onMessage: (message) => log.push(message),
    ...options,
  });
  const last = (): FakeConnection => {
    const connection = connections.at(-1);
    if (connection === undefined) throw new Error('no connection was opened');
    return connection;
  };
  return { clock, subscription, connections, last, log, state };
}

describe('starting', () => {
  it('opens one connection when first needed, and resolves when it is subscribed', async () => {
    const { clock, subscription, connections, last, log } = setUp();
    expect([connections.length, subscription.isUp]).toEqual([0, false]);
    let started = 0;
    for (let n = 0; n < 2; n += 1)
      void subscription.start().then(() => {
        started += 1;
      });
    await clock.settle();
    expect([connections.length, started]).toEqual([1, 0]);
    last().events.onUp();
    await clock.settle();
    expect([subscription.isUp, started, log]).toEqual([true, 2, ['up']]);
    last().events.onMessage('hello');
    expect(log).toEqual(['up', 'hello']);
    // The heartbeat, and no time limit of the start.
    expect(clock.timers).toBe(1);
  });

  it('callers go on without it after a second, and wait again only after it was up', async () => {
    const { clock, subscription, last } = setUp();
    const started = subscription.start();
    await clock.advance(1_000);
    await started;
    await subscription.start();
    last().events.onUp();
    last().events.onDown();
    let isStarted = false;
    void subscription.start().then(() => {
      isStarted = true;
    });
    await clock.advance(999);
    expect(isStarted).toBe(false);
    last().events.onUp();
    await clock.settle();
    expect(isStarted).toBe(true);
  });
});

describe('breaks', () => {
  it('a connection that reconnects by itself is kept', async () => {
    const { clock, subscription, connections, last, log } = setUp();
    void subscription.start();
    last().events.onUp();
    last().events.onUp();
    last().events.onDown();
    expect(subscription.isUp).toBe(false);
    last().events.onDown();
    await clock.advance(9_000);
    last().events.onUp();
    expect([connections.length, log, subscription.isUp]).toEqual([1, ['up', 'down', 'up'], true]);
    last().events.onDown();
    await clock.advance(11_000);
    expect([connections.length, log.length], 'one that stays down is replaced').toEqual([2, 4]);
  });

  it('a connection that has ended is replaced after a growing delay, its events ignored', async () => {
    const { clock, subscription, connections, last, log } = setUp();
    void subscription.start();
    const first = last();
    first.events.onUp();
    first.events.onEnd();
    expect([log, subscription.isUp, first.isClosed]).toEqual([['up', 'down'], false, true]);
    await clock.advance(100);
    expect(connections).toHaveLength(2);
    first.events.onMessage('late');
    first.events.onUp();
    first.events.onEnd();
    expect([log, subscription.isUp]).toEqual([['up', 'down'], false]);
    for (let n = 0; n < 10; n += 1) {
      last().events.onEnd();
      await clock.advance(5_000);
    }
    expect(connections).toHaveLength(12);
    last().events.onUp();
    expect(log).toEqual(['up', 'down', 'up']);
  });

  it('a connection that ends as soon as it is up is replaced after the same growing delay', async () => {
    const { clock, subscription, connections, last } = setUp();
    void subscription.start();
    for (let tenths = 0; tenths < 400; tenths += 1) {
      last().events.onUp();
      last().events.onEnd();
      await clock.advance(10);
    }
    // 4 s with delays that grow, and are at most 100 ms at first.
    expect(connections.length).toBeLessThan(25);
  });

  it('an attempt that nothing answers is given up after a time, and repeated', async () => {
    const { clock, subscription, connections, last, log } = setUp();
    void subscription.start();
    await clock.advance(9_999);
    expect([connections.length, last().isClosed]).toEqual([1, false]);
    await clock.advance(101);
    expect(connections.map(({ isClosed }) => isClosed)).toEqual([true, false]);
    last().events.onUp();
    await clock.advance(60_000);
    expect([connections.length, log]).toEqual([2, ['up']]);
  });

  it('a connection that ends while it is being opened is replaced too', async () => {
    let opened = 0;
    const { clock, subscription } = setUp({
      open: (events) => {
        opened += 1;
        events.onEnd();
        return { close: () => {} };
      },
    });
    const started = subscription.start();
    await clock.advance(1_000);
    await started;
    expect(opened).toBeGreaterThan(2);
  });

  it('is not replaced while there are no waiters, but as soon as there are some again', async () => {
    const { clock, subscription, connections, last, state, log } = setUp();
    void subscription.start();
    last().events.onUp();
    state.isWanted = false;
    last().events.onEnd();
    await clock.advance(60_000);
    expect([connections.length, log, clock.timers]).toEqual([1, ['up', 'down'], 0]);
    state.isWanted = true;
    void subscription.start();
    expect(connections).toHaveLength(2);
  });

  it('is never replaced where subscriptions are not possible', async () => {
    const { clock, subscription, connections, last } = setUp();
    const started = subscription.start();
    last().events.onEnd(true);
    await started;
    await subscription.start();
    await clock.advance(60_000);
    expect([connections.length, last().isClosed, subscription.isUp]).toEqual([1, true, false]);
  });
});

describe('heartbeat', () => {
  it.each([
    ['no answer', false, 3_000],
    ['an error', new Error('broken'), 0],
  ] as const)('a connection that gives %s is replaced', async (_what, answers, afterMs) => {
    const { clock, subscription, connections, last, log } = setUp();
    void subscription.start();
    last().events.onUp();
    await clock.advance(20_000);
    expect([connections.length, subscription.isUp]).toEqual([1, true]);
    last().answers = answers;
    await clock.advance(5_000 + afterMs);
    expect([subscription.isUp, log]).toEqual([false, ['up', 'down']]);
    await clock.advance(100);
    expect(connections).toHaveLength(2);
  });

  it('is not sent while the connection is down', async () => {
    const { clock, subscription, last } = setUp();
    void subscription.start();
    last().events.onUp();
    last().events.onDown();
    last().events.onUp();
    expect(clock.timers).toBe(1);
  });
});

describe('idle', () => {
  it('is closed after some time without waiters, and that is not reported as a break', async () => {
    const { clock, subscription, last, state, log, connections } = setUp({ idleMs: 500 });
    void subscription.start();
    last().events.onUp();
    state.isWanted = false;
    subscription.onUnwanted();
    await clock.advance(499);
    expect(last().isClosed).toBe(false);
    await clock.advance(1);
    expect([last().isClosed, subscription.isUp, log, clock.timers]).toEqual([true, false, ['up'], 0]);
    state.isWanted = true;
    void subscription.start();
    expect(connections).toHaveLength(2);
  });

  it('a connection that was up until then ends the growth of the delays', async () => {
    const { clock, subscription, connections, last, state } = setUp({ idleMs: 500 });
    void subscription.start();
    for (let failures = 0; failures < 6; failures += 1) {
      last().events.onEnd();
      await clock.advance(5_000);
    }
    last().events.onUp();
    await clock.advance(6_000);
    state.isWanted = false;
    subscription.onUnwanted();
    await clock.advance(500);
    expect([connections.length, last().isClosed]).toEqual([7, true]);
    state.isWanted = true;
    void subscription.start();
    last().events.onUp();
    // This one is not up for long enough to end it.
    await clock.advance(1_000);
    last().events.onEnd();
    await clock.advance(100);
    expect(connections).toHaveLength(9);
  });

  it('stays open when there is a waiter again', async () => {
    const { clock, subscription, last, state } = setUp({ idleMs: 500 });
    void subscription.start();
    last().events.onUp();
    state.isWanted = false;
    subscription.onUnwanted();
    await clock.advance(400);
    state.isWanted = true;
    await clock.advance(10_000);
    expect([last().isClosed, subscription.isUp]).toEqual([false, true]);
  });

  it('is noticed by the heartbeat', async () => {
    const { clock, subscription, last, state } = setUp({ idleMs: 30_000 });
    void subscription.start();
    last().events.onUp();
    state.isWanted = false;
    await clock.advance(20_000);
    state.isWanted = true;
    await clock.advance(5_000);
    state.isWanted = false;
    await clock.advance(34_999);
    expect(last().isClosed).toBe(false);
    await clock.advance(1);
    expect([last().isClosed, clock.timers]).toEqual([true, 0]);
  });
});

it('closing ends it at any time, and for good', async () => {
  const { clock, subscription, connections, last, log } = setUp({ idleMs: 1_000 });
  const started = subscription.start();
  await subscription.close();
  await started;
  last().events.onUp();
  await subscription.start();
  await clock.advance(60_000);
  expect([connections.length, last().isClosed, subscription.isUp, log, clock.timers]).toEqual([
    1,
    true,
    false,
    [],
    0,
  ]);
});

describe('a connection that cannot be opened', () => {
  it('is tried again, also when the second attempt fails', async () => {
    const refused = { times: 2 };
    const events: Array<ConnectionEvents<string>> = [];
    const { clock, subscription } = setUp({
      open: (given) => {
        refused.times -= 1;
        if (refused.times >= 0) throw new Error('the client is closed');
        events.push(given);
        return { close: () => {} };
      },
    });
    void subscription.start();
    await clock.settle();
    await clock.advance(1_000);
    expect(events).toHaveLength(1);
    events[0]?.onUp();
    expect(subscription.isUp).toBe(true);
    await subscription.close();
  });

  it('is left alone once nobody waits', async () => {
    let opened = 0;
    const { clock, subscription, state } = setUp({
      open: () => {
        opened += 1;
        throw new Error('the client is closed');
      },
    });
    state.isWanted = false;
    await Promise.all([subscription.start(), clock.advance(10_000)]);
    expect(opened).toBe(1);
  });
});
