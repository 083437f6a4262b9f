import { describe, expect, it } from 'vitest';
import { ownerOf } from '../../src/claim-id.ts';
import type { LeaderList, LeaderSummary } from '../../src/dashboard/index.ts';
import { virtualWorld } from './support/virtual-world.ts';

describe('leaders', () => {
  it('are listed for elections in which only other processes stand', async () => {
    const { clock, locks, of, get } = virtualWorld();
    const [first, second] = [of('web-1'), of('web-2')];
    const candidate = first.election('boss').start();
    await clock.advance(10);
    const other = second.election('boss').start();
    await first.mutex('order:1').acquire();
    await clock.advance(2_000);
    const { leaders } = await get<LeaderList>('/api/leaders');
    expect(leaders).toMatchObject([
      { name: 'boss', leader: { owner: 'web-1' }, candidateCount: 2, isHere: false },
    ]);
    await Promise.all([candidate.stop(), other.stop()]);
    for (const each of [first, second, locks]) await each.close({ drainMs: 0 });
  });

  it('are led by a claim whose id still names its owner', async () => {
    const { clock, locks } = virtualWorld();
    const candidate = locks.election('boss').start();
    await clock.advance(10);
    const leader = await locks.election('boss').leader();
    expect(leader?.owner).toBe('me');
    expect(ownerOf(leader?.id ?? '')).toBe('me');
    await candidate.stop();
    await locks.close();
  });

  it('have a lease that drains between two renewals', async () => {
    const { clock, locks, get } = virtualWorld();
    const candidate = locks.election('boss', { ttlMs: 30_000, renewEveryMs: 20_000 }).start();
    await clock.advance(10);
    const read = async (): Promise<LeaderSummary | undefined> =>
      (await get<LeaderList>('/api/leaders')).leaders[0];
    const whole = await read();
    await clock.advance(10_000);
    const later = await read();
    expect([whole?.isHere, later?.isHere]).toEqual([true, true]);
    // The length of the full bar stays, so the bar is shorter now.
    expect(later?.leader?.leaseMs).toBe(whole?.leader?.leaseMs);
    expect((later?.leader?.expiresAtMs ?? 0) - clock.wallMs()).toBeLessThan(21_000);
    await candidate.stop();
    await locks.close();
  });

  it('are listed while this process waits in lead(), or stands without a leader', async () => {
    const { clock, locks, of, get } = virtualWorld();
    const other = of('web-1');
    const hold = await other.mutex('boss').acquire();
    const stopped = new AbortController();
    const leading = locks.election('boss').lead(async () => {}, { signal: stopped.signal });
    leading.catch(() => {});
    await clock.advance(1_500);
    const { leaders } = await get<LeaderList>('/api/leaders');
    expect(leaders).toMatchObject([{ name: 'boss', candidateCount: 2 }]);
    stopped.abort();
    await clock.advance(1_500);
    expect((await get<LeaderList>('/api/leaders')).leaders).toEqual([]);
    await hold.release();
    for (const each of [other, locks]) await each.close({ drainMs: 0 });
  });
});
