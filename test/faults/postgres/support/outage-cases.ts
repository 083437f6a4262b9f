import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Locks, Store } from '../../../../src/index.ts';
import { request } from '../../../../src/testing/store-case.ts';
import type { FaultProxy } from '../../../../src/torture/servers/fault-proxy.ts';
import type { PgLibrary } from '../../../support/clients/postgres-pools.ts';
import { askForMany, callers, cpuShareOf, heapMb, sameOrOwn } from '../../../support/outage/callers.ts';
import { eventually } from '../../../support/waiting/eventually.ts';

/** A store in PostgreSQL behind a proxy. */
export interface OutageSubject {
  proxy(): FaultProxy;
  /** Whether a call fails at once while the server refuses, so that its caller must pause. */
  readonly failsFast: boolean;
  open(library: PgLibrary): { readonly store: Store; readonly locks: Locks };
  /** How many claims the server has been sent, at least of locks whose names begin so. */
  sentClaims(prefix: string): Promise<number>;
}

/** How long an outage lasts; a campaign sets minutes. */
const OUTAGE_MS = Number(process.env.HOLDFAST_OUTAGE_SECONDS ?? 3) * 1_000;
const LIBRARIES = ['pg.Pool', 'postgres.js'] as const;

const OUTAGES: Readonly<Record<string, (proxy: FaultProxy) => void>> = {
  'refuses connections': (proxy) => {
    proxy.refuse();
    proxy.cut();
  },
  'swallows packets': (proxy) => proxy.drop('both'),
};

export function describeOutage(subject: OutageSubject): void {
  describeCost(subject);
  describe.each(LIBRARIES)('under %s', (library) => describeGivenUp(subject, library));
}

/** The libraries share each outage: together they have to stay within what one of them may cost. */
function describeCost({ proxy, failsFast, open }: OutageSubject): void {
  const openAll = async (): Promise<Locks[]> => {
    const all = LIBRARIES.map((library) => open(library).locks);
    for (const locks of all) await (await locks.mutex('warm').acquire()).release();
    return all;
  };

  const call = (all: readonly Locks[], each: number, everyMs: number): (() => Promise<unknown>) => {
    const pauseMs = failsFast ? everyMs : 0;
    const ends = all.map((locks) => callers(locks, each, everyMs, sameOrOwn, pauseMs));
    return () => Promise.all(ends.map((end) => end()));
  };

  it.each(Object.entries(OUTAGES))(
    '%s: callers that give up leave nothing behind',
    async (_what, begin) => {
      const all = await openAll();
      begin(proxy());
      const end = call(all, 20, 5);
      await sleep(1_500);
      // A leak grows in every window of time; what is under way at one moment differs by megabytes.
      let grownMb = Number.POSITIVE_INFINITY;
      for (let windows = 0; windows < 3 && grownMb >= 5; windows += 1) {
        const before = await heapMb();
        await sleep(OUTAGE_MS);
        grownMb = (await heapMb()) - before;
      }
      await end();
      proxy().pass();
      for (const locks of all) {
        const works = () => locks.withLock('after', () => true).catch(() => false);
        await eventually('it works again', works);
      }
      // Within 20 MB in five minutes; what leaks shows within seconds.
      expect(grownMb).toBeLessThan(5);
    },
    3 * OUTAGE_MS + 60_000,
  );

  it.each(Object.entries(OUTAGES))('%s: a few callers cost next to nothing', async (_what, begin) => {
    const all = await openAll();
    begin(proxy());
    expect(await cpuShareOf(() => call(all, 10, 250), 0.2)).toBeLessThan(0.2);
  });
}

function describeGivenUp({ proxy, open, sentClaims }: OutageSubject, library: PgLibrary): void {
  it('claims that were given up before the connection was there are never sent', async () => {
    const { locks } = open(library);
    const prefix = `early-${library}`;
    const before = await sentClaims(prefix);
    proxy().holdReplies();
    proxy().cut();
    const given = new AbortController();
    const outcomes = askForMany(locks, prefix, given.signal);
    await sleep(300);
    given.abort();
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['given up']));
    proxy().pass();
    await (await locks.mutex(`${prefix}-after`).acquire()).release();
    await sleep(300);
    expect((await sentClaims(prefix)) - before).toBe(1);
  });

  it('claims that were given up while another statement was under way are never sent', async () => {
    const { store } = open(library);
    const prefix = `behind-${library}`;
    await store.claim(request(`warm-${library}`));
    const before = await sentClaims(prefix);
    proxy().holdReplies();
    const first = store.claim(request(`${prefix}-first`));
    await sleep(100);
    const given = new AbortController();
    const claims = Array.from({ length: 200 }, (_, n) => request(`${prefix}-${n}`));
    const outcomes = claims.map((claim) => store.claim(claim, given.signal).catch((error: unknown) => error));
    await sleep(100);
    given.abort();
    const settled = await Promise.race([Promise.all(outcomes), sleep(5_000, [])]);
    expect(settled).toHaveLength(200);
    for (const outcome of settled) expect(outcome).toMatchObject({ code: 'STORE', applied: 'no' });
    proxy().pass();
    expect((await first).granted).toBe(true);
    expect((await store.claim(request(`${prefix}-last`))).granted).toBe(true);
    expect((await sentClaims(prefix)) - before).toBe(2);
  });
}
