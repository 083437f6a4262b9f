import { expect, it } from 'vitest';
import { SharedPromise } from '../../src/stores/postgres/advisory/shared-promise.ts';

function setUp(): { work: SharedPromise<string>; finish(value: string): void; fail(error: Error): void } {
  let finish: (value: string) => void = () => {};
  let fail: (error: Error) => void = () => {};
  const work = new SharedPromise(
    new Promise<string>((resolve, reject) => {
      finish = resolve;
      fail = reject;
    }),
  );
  return { work, finish: (value) => finish(value), fail: (error) => fail(error) };
}

it('gives all callers the result, in the order in which they came', async () => {
  const { work, finish } = setUp();
  const order: number[] = [];
  const callers = [0, 1, 2].map(async (n) => {
    const value = await work.wait(n === 1 ? new AbortController().signal : undefined);
    order.push(n);
    return value;
  });
  finish('done');
  expect(await Promise.all(callers)).toEqual(['done', 'done', 'done']);
  expect(order).toEqual([0, 1, 2]);
});

it('gives all callers the failure, which is not unhandled without callers', async () => {
  const { work, fail } = setUp();
  const callers = [0, 1].map(() => work.wait().catch((error: Error) => error.message));
  fail(new Error('failed'));
  expect(await Promise.all(callers)).toEqual(['failed', 'failed']);
  setUp().fail(new Error('nobody waits'));
  await new Promise(setImmediate);
});

it('gives the result to a caller that comes after the end', async () => {
  const { work, finish } = setUp();
  const first = work.wait();
  finish('done');
  await first;
  expect(await work.wait()).toBe('done');
});

it('lets a caller leave when its signal aborts, also before it waits', async () => {
  const { work, finish } = setUp();
  const controller = new AbortController();
  const [left, stayed] = [work.wait(controller.signal), work.wait()];
  controller.abort();
  await expect(left).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  await expect(work.wait(controller.signal)).rejects.toMatchObject({ code: 'STORE', applied: 'no' });
  finish('done');
  expect(await stayed).toBe('done');
});

it('keeps nothing of a caller that has left', async () => {
  const { work } = setUp();
  const controller = new AbortController();
  const left = new WeakRef(work.wait(controller.signal));
  left.deref()?.catch(() => {});
  controller.abort();
  await new Promise((resolve) => setTimeout(resolve, 10));
  const { setFlagsFromString } = await import('node:v8');
  const { runInNewContext } = await import('node:vm');
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  expect(left.deref()).toBeUndefined();
});
