import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { compiled } from '../support/process/compiled.ts';
import { killHolders } from '../support/torture/killed-holders.ts';

const HOLDER = fileURLToPath(new URL('../support/process/holder.ts', import.meta.url));

/** Seconds of what `npm run campaign -- killed-holders` does a thousand times on all stores. */
describe.concurrent('killed holders', () => {
  it('are followed soon after their TTL', async () => {
    const { tookMs, ttlMs } = await killHolders({
      kind: 'redis',
      deaths: 8,
      locksAtOnce: 4,
      seed: 1,
      script: compiled(HOLDER),
    });
    expect(tookMs).toHaveLength(8);
    // The campaign allows a second. Here other tests keep the cores busy.
    expect(Math.max(...tookMs)).toBeLessThan(ttlMs + 4_000);
  });

  it('that are followed too late are found: a planted lease of twice the TTL and more', async () => {
    const { late } = await killHolders({
      kind: 'redis',
      deaths: 2,
      locksAtOnce: 2,
      seed: 1,
      holderTtlMs: 8_000,
      script: compiled(HOLDER),
    });
    expect(late).toHaveLength(2);
  });
});
