import { describe, expect, it } from 'vitest';
import type { ClaimView, Hold } from '../../src/index.ts';
import { codeOf, makeWorld, outcomeOf } from '../support/memory/world.ts';

describe('election', () => {
  it('elects one candidate, and the next at the instant at which it stops', async () => {
    const { locks, clock } = makeWorld();
    const said: string[] = [];
    const stand = (who: string) =>
      locks({ owner: who })
        .election('boss')
        .start({
          onElected: () => void said.push(`${who} elected`),
          onLost: (reason) => void said.push(`${who} lost: ${(reason as { how?: string }).how}`),
        });
    const one = stand('one');
    await clock.settle();
    const two = stand('two');
    await clock.settle();
    expect([one.isLeader, two.isLeader]).toEqual([true, false]);
    await one.stop();
    await clock.settle();
    expect([one.isLeader, two.isLeader]).toEqual([false, true]);
    expect(said).toEqual(['one elected', 'one lost: released', 'two elected']);
    await two[Symbol.asyncDispose]();
    expect(two.isLeader).toBe(false);
  });

  it('turns isLeader false on the local deadline, calls onLost, and stands again', async () => {
    const { locks: others, faulty, clock } = makeWorld();
    let down = false;
    const { locks } = faulty((call) => (down && call.verb !== 'watch' ? 'refuse' : null));
    const terms: bigint[] = [];
    const reasons: unknown[] = [];
    const candidate = locks.election('boss', { ttlMs: 3_000 }).start({
      onElected: (term) => void terms.push(term.fence),
      onLost: (reason) => void reasons.push(reason),
    });
    await clock.settle();
    down = true;
    const rival = others().election('boss').start();
    await clock.advance(2_968);
    expect([candidate.isLeader, rival.isLeader]).toEqual([false, false]);
    expect(reasons).toMatchObject([{ code: 'HOLD_LOST', how: 'expired' }]);
    await clock.advance(100);
    expect(rival.isLeader).toBe(true);
    down = false;
    await rival.stop();
    await clock.advance(5_000);
    expect(candidate.isLeader).toBe(true);
    expect(terms).toHaveLength(2);
    expect(terms[1]).toBeGreaterThan(terms[0] ?? 0n);
    await candidate.stop();
  });

  it('turns isLeader false at the deadline, before any timer has run', async () => {
    const { locks, clock } = makeWorld();
    const candidate = locks().election('boss').start();
    await clock.settle();
    expect(candidate.isLeader).toBe(true);
    clock.jumpWall(3_600_000);
    expect(candidate.isLeader).toBe(false);
    await candidate.stop();
  });

  it('resigns and stands again when the handler throws', async () => {
    const { locks, clock } = makeWorld();
    let elected = 0;
    const reasons: Error[] = [];
    const candidate = locks()
      .election('boss')
      .start({
        onElected: () => {
          elected += 1;
          if (elected === 1) throw new Error('not today');
        },
        onLost: (reason) => void reasons.push(reason),
      });
    await clock.settle();
    expect(candidate.isLeader).toBe(false);
    await clock.advance(10_000);
    expect(candidate.isLeader).toBe(true);
    expect(reasons.map((reason) => reason.message)).toEqual(['not today']);
    await candidate.stop();
  });

  it('lead: resigns and resolves when the function returns', async () => {
    const { locks, store } = makeWorld();
    const term = await new Promise<Hold>((resolve, reject) => {
      locks()
        .election('boss')
        .lead(async (hold) => resolve(hold))
        .catch(reject);
    });
    expect(term.fence).toBeGreaterThan(0n);
    for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
    expect(await store.read('boss')).toEqual([]);
  });

  it('lead: after a lost term the function is awaited and a new campaign begins', async () => {
    const { locks, clock, store } = makeWorld();
    const log: string[] = [];
    const led = outcomeOf(
      locks()
        .election('boss', { ttlMs: 3_000 })
        .lead(async (term) => {
          log.push('elected');
          if (log.length > 2) return;
          await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
          log.push('ended');
          throw new Error('interrupted');
        }),
    );
    await clock.settle();
    const [claim] = await store.read('boss');
    await store.evict({ name: 'boss', id: claim?.id ?? '' });
    await clock.advance(5_000);
    expect(log).toEqual(['elected', 'ended', 'elected']);
    expect(led.state).toBe('kept');
  });

  it('lead: rejects with the error of the function', async () => {
    const { locks, store } = makeWorld();
    await expect(
      locks()
        .election('boss')
        .lead(() => Promise.reject(new Error('broken'))),
    ).rejects.toThrow('broken');
    expect(await store.read('boss')).toEqual([]);
  });

  it('lead: an abort ends the wait, or the term after the function has ended', async () => {
    const { locks, clock, store } = makeWorld();
    const holder = await locks().mutex('boss').acquire();
    const waiting = new AbortController();
    const never = outcomeOf(
      locks()
        .election('boss')
        .lead(async () => {}, { signal: waiting.signal }),
    );
    await clock.settle();
    waiting.abort('enough');
    await clock.settle();
    expect(never.error).toBe('enough');
    await holder.release();

    const leading = new AbortController();
    let ended = false;
    const led = outcomeOf(
      locks()
        .election('boss')
        .lead(
          async (term) => {
            await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
            expect(await store.read('boss'), 'still ours while the function ends').toHaveLength(1);
            ended = true;
          },
          { signal: leading.signal },
        ),
    );
    await clock.settle();
    leading.abort('enough');
    await clock.settle();
    expect(ended).toBe(true);
    expect(led.error).toBe('enough');
    expect(await store.read('boss')).toEqual([]);
  });

  it('shows the leader with its metadata', async () => {
    const { locks, clock } = makeWorld();
    const election = locks({ owner: 'one' }).election('boss', { metadata: { url: 'http://one' } });
    expect(await election.leader()).toBeNull();
    const candidate = election.start();
    await clock.settle();
    expect(await locks().election('boss').leader()).toMatchObject({
      owner: 'one',
      metadata: { url: 'http://one' },
    });
    await candidate.stop();
  });

  it('observers see each leader that lasts, and no term twice or in the wrong order', async () => {
    const { locks, clock } = makeWorld();
    const seen: (ClaimView | null)[] = [];
    const controller = new AbortController();
    const watching = (async () => {
      for await (const leader of locks().election('boss').observe({ signal: controller.signal }))
        seen.push(leader);
    })();
    const watched = outcomeOf(watching);
    await clock.settle();
    for (const who of ['one', 'two', 'three']) {
      const candidate = locks({ owner: who }).election('boss').start();
      await clock.advance(10);
      await candidate.stop();
      await clock.advance(10);
    }
    controller.abort('enough');
    await clock.advance(10);
    expect(watched.error).toBe('enough');
    expect(seen.map((leader) => leader?.owner ?? null)).toEqual([
      null,
      'one',
      null,
      'two',
      null,
      'three',
      null,
    ]);
    const terms = seen.flatMap((leader) => (leader?.fence == null ? [] : [leader.fence]));
    expect(terms).toEqual([...terms].sort((a, b) => (a < b ? -1 : 1)));
  });

  it('observers never go back to a term that a stale replica still shows', async () => {
    const { locks, clock, store } = makeWorld();
    const { createLocks } = await import('../../src/index.ts');
    const first = locks({ owner: 'one' }).election('boss').start();
    await clock.settle();
    const stale = await store.read('boss');
    await first.stop();
    const second = locks({ owner: 'two' }).election('boss').start();
    await clock.settle();
    let reads = 0;
    const flaky = Object.assign(Object.create(store), {
      traits: store.traits,
      claim: store.claim.bind(store),
      watch: store.watch.bind(store),
      close: async () => {},
      read: async () => (reads++ % 2 === 1 && reads < 9 ? stale : await store.read('boss')),
    });
    const mine = createLocks(flaky, { clock });
    const seen: unknown[] = [];
    const watched = outcomeOf(
      (async () => {
        for await (const leader of mine.election('boss').observe()) seen.push(leader?.owner ?? null);
      })(),
    );
    await clock.advance(60_000);
    expect(reads).toBeGreaterThan(5);
    expect(seen).toEqual(['two']);
    await mine.close({ drainMs: 0 });
    await clock.settle();
    expect(watched.state).toBe('kept');
    await second.stop();
  });

  it('lead does not begin a term when the Locks is closed together with the grant', async () => {
    const { locks, clock } = makeWorld();
    const mine = locks();
    let closed: ReturnType<typeof outcomeOf> | null = null;
    mine.on('leader', () => {
      closed = outcomeOf(mine.close({ drainMs: 10_000 }));
    });
    let terms = 0;
    const led = outcomeOf(
      mine.election('boss').lead(async (term) => {
        terms += 1;
        await new Promise((resolve) => term.signal.addEventListener('abort', resolve));
      }),
    );
    await clock.settle();
    expect(terms).toBe(0);
    expect(codeOf(led.error)).toBe('CLOSED');
    const next = locks().election('boss').start();
    // Less than `drainMs`: the lock was released, and `close` had nothing to wait for.
    await clock.advance(2_000);
    expect(next.isLeader).toBe(true);
    expect(closed).toMatchObject({ state: 'kept' });
    await next.stop();
  });

  it('observers end when the Locks is closed, and survive a store that fails for a while', async () => {
    const { faulty, locks, clock } = makeWorld();
    let down = true;
    const { locks: mine } = faulty((call) => (down && call.verb === 'read' ? 'fail' : null));
    const seen: unknown[] = [];
    const watched = outcomeOf(
      (async () => {
        for await (const leader of mine.election('boss').observe()) seen.push(leader?.owner ?? null);
      })(),
    );
    const candidate = locks({ owner: 'one' }).election('boss').start();
    await clock.advance(1_000);
    expect(seen).toEqual([]);
    down = false;
    await clock.advance(10_000);
    expect(seen).toEqual(['one']);
    await mine.close({ drainMs: 0 });
    await clock.settle();
    expect(watched.state).toBe('kept');
    await candidate.stop();
  });
});
