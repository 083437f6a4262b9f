import { readFileSync } from 'node:fs';
import pino from 'pino';
import { expect, it } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';

const page = readFileSync(new URL('../../docs/monitoring.md', import.meta.url), 'utf8');
/** The lines of the page that log with pino, without their import. */
const [, lines = ''] = /```ts\nimport pino from 'pino';\n([\s\S]*?)```/.exec(page) ?? [];

it('the log lines of docs/monitoring.md tell who waited for whom, for every use of a name', async () => {
  const store = memoryStore();
  await using holder = createLocks(store, { owner: 'holder' });
  await using locks = createLocks(store, { owner: 'waiter', ttlMs: 3_000 });
  const logged: Record<string, unknown>[] = [];
  const toHere = (): unknown => pino({ base: null }, { write: (line) => void logged.push(JSON.parse(line)) });
  new Function('pino', 'locks', lines)(toHere, locks);

  // The name is that of a mutex too, which another owner holds.
  await using decoy = createLocks(store, { owner: 'decoy' });
  await using _held = await decoy.mutex('report').acquire();
  let end = (): void => {};
  const running = holder.once('report', () => new Promise<void>((resolve) => (end = resolve)));
  const waiting = locks.once('report', () => {}, { waitMs: 60_000 });
  await expect
    .poll(() => logged)
    .toMatchObject([{ msg: 'waits for a lock', lock: 'report', heldBy: ['holder'] }]);
  const [{ claim } = { claim: null }] = logged;
  end();
  expect(await running).toMatchObject({ ran: true });
  expect(await waiting).toEqual({ ran: false, why: 'done' });

  const hold = await locks.mutex('order').acquire();
  expect(logged.at(-1)).toMatchObject({ msg: 'acquired', lock: 'order', waitedMs: expect.any(Number) });
  expect(claim).toMatch(/^waiter#/);
  expect(await holder.evict('order', hold)).toBe(true);
  await expect.poll(() => logged.at(-1)).toMatchObject({ msg: 'lost a lock', lock: 'order', how: 'taken' });
  expect(logged.at(-1)).toMatchObject({ err: { code: 'HOLD_LOST' } });
});
