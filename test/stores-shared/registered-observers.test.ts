import { expect, it } from 'vitest';
import { RegisteredObservers } from '../../src/stores/shared/registered-observers.ts';
import { virtualClock } from '../../src/testing/index.ts';

it('registers an observer only after the reports to the one before have ended', async () => {
  const clock = virtualClock();
  const asked: number[] = [];
  let endReports = (): void => {};
  const observers = new RegisteredObservers(clock, async (_name, forMs) => {
    if (forMs === 0)
      await new Promise<void>((resolve) => {
        endReports = resolve;
      });
    asked.push(forMs);
    return true;
  });
  const stop = observers.add('a', () => {});
  await observers.register('a');
  stop();
  observers.add('a', () => {});
  const registered = observers.register('a');
  await clock.settle();
  expect(asked).toEqual([60_000]);
  endReports();
  await registered;
  expect(asked).toEqual([60_000, 0, 60_000]);
});

it('calls the observers of a server that cannot report changes, until they are removed', async () => {
  const clock = virtualClock();
  let calls = 0;
  const observers = new RegisteredObservers(clock, async () => false);
  const stop = observers.add('a', () => {
    calls += 1;
  });
  await observers.register('a');
  await clock.advance(2_000);
  expect(calls).toBeGreaterThan(3);
  stop();
  calls = 0;
  await clock.advance(2_000);
  expect(calls).toBe(0);
});
