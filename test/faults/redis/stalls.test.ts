import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { LIBRARIES } from '../../support/redis-clients.ts';

/** A claim that hardly waits has this long to be answered. */
const LIMIT_MS = 1_000;

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => stage[Symbol.asyncDispose]());

/** Once what was asked has left: one library writes at once, the other at the end of the turn. */
function stall(ms: number): void {
  process.nextTick(() =>
    setImmediate(() => {
      for (const endMs = performance.now() + ms; performance.now() < endMs; );
    }),
  );
}

describe.each(LIBRARIES)('a process that stands still, under %s', (library) => {
  it('takes the answer that came meanwhile, and does not give it up unread', async () => {
    const locks = await stage.locks(library, stage.server.url);
    const name = `stalled ${library}`;
    await locks.mutex(name).run(() => {});
    const holding = locks.mutex(name).acquire({ waitMs: 1 });
    stall(LIMIT_MS + 500);
    const hold = await holding;
    expect(hold.remainingMs).toBeGreaterThan(0);
    const releasing = hold.release();
    stall(LIMIT_MS + 1_000);
    expect(await releasing).toBe(true);
  });
});
