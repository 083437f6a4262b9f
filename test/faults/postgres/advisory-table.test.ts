import { describe, expect, it } from 'vitest';
import { request } from '../../../src/testing/store-case.ts';
import { AdvisoryStage } from '../../postgres/support/advisory-stage.ts';
import { startPostgres } from '../../support/servers/postgres.ts';

describe('the server’s table of locks', () => {
  it('row 38: a full table is a typed error, costs no hold, and leaves no lock behind', async () => {
    const small = await startPostgres({
      settings: { max_locks_per_transaction: '10', max_connections: '20' },
    });
    const other = await AdvisoryStage.on(small);
    const store = other.store();
    const held = request('before');
    await store.claim(held);
    const foreign = await other.foreign();
    for (let n = 0; ; n += 50) {
      const filled = await foreign
        .query('SELECT pg_advisory_lock(key) FROM generate_series($1::int, $2::int) AS key', [n, n + 49])
        .catch((error: { code?: string }) => error.code);
      if (filled === '53200') break;
      expect(n).toBeLessThan(20_000);
    }
    // A few fit again, so that a statement fails in its middle.
    await foreign.query('SELECT pg_advisory_unlock(key) FROM generate_series(0, 4) AS key');
    const crowd = Array.from({ length: 60 }, (_, n) => request(`crowd:${n}`));
    const outcomes = await Promise.allSettled(crowd.map((each) => store.claim(each)));
    const errors = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(errors).toHaveLength(60);
    expect(errors[0]).toMatchObject({ code: 'STORE', applied: 'no', cause: { code: '53200' } });
    expect((await store.renew(held, { ttlMs: 1_000 })).held).toBe(true);
    await foreign.end();
    const ours = await other.query("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'");
    // The hold, and what shows that the session is ours.
    expect(ours).toHaveLength(2);
    expect((await store.claim(request('after'))).granted).toBe(true);
    await other.end();
    await small.stop();
  }, 60_000);

  it('row 38: many processes stop before the table is full, and others can still connect', async () => {
    const small = await startPostgres({
      settings: { max_locks_per_transaction: '20', max_connections: '40' },
    });
    const other = await AdvisoryStage.on(small);
    const stores = [other.store(), other.store()];
    let granted = 0;
    let refusal: unknown = null;
    for (let n = 0; n < 1_200 && refusal === null; n += 1) {
      const outcome = await (stores[n % 2] as (typeof stores)[0])
        .claim(request(`fill:${n}`))
        .catch((error: unknown) => {
          refusal = error;
          return null;
        });
      if (outcome?.granted === true) granted += 1;
    }
    expect(refusal).toMatchObject({ code: 'STORE', applied: 'no' });
    expect(String(refusal)).toContain('max_locks_per_transaction');
    expect(granted).toBeGreaterThan(250);
    expect(granted).toBeLessThan(800);
    expect(await other.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
    await other.end();
    await small.stop();
  }, 60_000);

  it('row 38: a burst of claims in one tick stops before the table is full', async () => {
    const small = await startPostgres({
      settings: { max_locks_per_transaction: '20', max_connections: '40' },
    });
    const other = await AdvisoryStage.on(small);
    const store = other.store();
    await store.claim(request('before'));
    const burst = Array.from({ length: 1_200 }, (_, n) => request(`burst:${n}`));
    const outcomes = await Promise.allSettled(burst.map((each) => store.claim(each)));
    const errors = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []));
    expect(String(errors[0])).toContain('max_locks_per_transaction');
    // Three quarters of 20 × 40 entries.
    expect(outcomes.length - errors.length).toBeGreaterThan(250);
    expect(outcomes.length - errors.length).toBeLessThan(600);
    await other.end();
    await small.stop();
  }, 60_000);
});
