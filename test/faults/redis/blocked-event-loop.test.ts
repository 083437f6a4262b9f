import { describe, expect, it } from 'vitest';
import { startStage } from '../../redis/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { useStage } from '../../support/hooks/use-stage.ts';

/** The time limit of a claim with a short wait. */
const LIMIT_MS = 1_000;

const stage = await useStage(startStage());

/** Resolves when the command was written: one library writes at once, the other at the end of the tick. */
function stall(ms: number): void {
  process.nextTick(() =>
    setImmediate(() => {
      for (const endMs = performance.now() + ms; performance.now() < endMs; );
    }),
  );
}

describe.each(LIBRARIES)('a process whose event loop is blocked, under %s', (library) => {
  it('uses the reply that came meanwhile, instead of giving up', async () => {
    const locks = await stage.locks(library, stage.server.url);
    const name = `stalled ${library}`;
    await locks.mutex(name).run(() => {});
    const holding = locks.mutex(name).acquire({ waitMs: 1 });
    // On a busy machine the server may need a part of it.
    stall(LIMIT_MS + 2_000);
    const hold = await holding;
    expect(hold.remainingMs).toBeGreaterThan(0);
    const releasing = hold.release();
    stall(LIMIT_MS + 2_000);
    expect(await releasing).toBe(true);
  });
});
