import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { memoryStore } from '../../../src/index.ts';
import { schedule } from '../../../src/schedule/index.ts';
import { type PageWorld, startPageWorld } from '../../support/dashboard/page-world.ts';
import { eventually } from '../../support/waiting/eventually.ts';

let world: PageWorld;
beforeAll(async () => {
  const store = memoryStore();
  world = await startPageWorld(() => store);
});
afterAll(() => world?.[Symbol.asyncDispose]());

const rowOf = (page: Page, table: string, name: string) =>
  page
    .getByRole('table', { name: table })
    .locator('tbody tr', { has: page.getByRole('link', { name, exact: true }) });

describe('the page of leaders', () => {
  it('shows the leader, its term and lease, and the candidates, of this process and of others', async () => {
    const seldom = { ttlMs: 30_000, renewEveryMs: 20_000 };
    world.of('web-1:10:a').election('leader:billing', seldom).start();
    await eventually(
      'a leader',
      async () => (await world.locks.election('leader:billing').leader()) !== null,
    );
    world.of('web-2:11:b').election('leader:billing').start();
    world.locks.election('leader:mail').start();
    await using opened = await world.open('#/leaders');
    const { page } = opened;
    const billing = rowOf(page, 'Leaders', 'leader:billing');
    await billing.waitFor();
    await eventually('both candidates', async () => /\t2$/.test((await billing.innerText()).trim()));
    const leader = await world.locks.election('leader:billing').leader();
    const text = await billing.innerText();
    expect(text).toContain('web-1:10:a');
    expect(text).toContain(`term …${`${leader?.fence}`.slice(-6)}`);
    expect(text).not.toContain('this process');
    expect(text).toMatch(/\d+ s/);
    const mail = rowOf(page, 'Leaders', 'leader:mail');
    await eventually('the own election', async () => (await mail.innerText()).includes('this process'));
    const left = (): Promise<number> =>
      billing.locator('.lease').evaluate((e) => Number(e.style.getPropertyValue('--left')));
    // The page is read again every 2 s. A bar that were full after each would stay above 0.9.
    await eventually('the lease drains', async () => (await left()) < 0.8, 40_000);
    expect(opened.complaints).toEqual([]);
  }, 90_000);
});

describe('the page of schedules', () => {
  it('shows the run in progress, the last run and the next, as far as the process knows', async () => {
    let finish = (): void => {};
    const job = schedule(
      world.locks,
      'import',
      '* * * * * *',
      () => new Promise<void>((end) => (finish = end)),
    );
    schedule(world.of('web-1:10:a'), 'digest', '* * * * * *', () => {});
    await using opened = await world.open('#/schedules');
    const { page } = opened;
    const own = rowOf(page, 'Schedules', 'import');
    await eventually('the run', async () => /runs for \d+ s/.test(await own.innerText()));
    expect(await own.innerText()).toContain(world.locks.owner);
    expect(await own.innerText()).toMatch(/in \d+ s/);
    const stopping = job.stop();
    finish();
    await stopping;
    await eventually('the end of the run', async () => (await own.innerText()).includes('✓ finished'));
    await eventually('no run', async () => (await own.innerText()).includes('idle'));
    const other = rowOf(page, 'Schedules', 'digest');
    await eventually('the last run', async () => (await other.innerText()).includes('✓ finished'));
    expect(await other.innerText()).toContain('only the processes that run it know');
    expect(opened.complaints).toEqual([]);
  }, 90_000);
});
