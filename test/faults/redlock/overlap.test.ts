import { afterEach, describe, expect, it } from 'vitest';
import { memoryFenceGate } from '../../../src/fence/index.ts';
import { type ClockShim, makeClockShim } from '../../../src/torture/servers/clock-shim.ts';
import { maxOfTheVotes } from '../../redlock/support/forwarding.ts';
import { type Process, type Stage, startRedlockStage } from '../../redlock/support/stage.ts';
import { eventually } from '../../support/waiting/eventually.ts';

/** Client 1 holds A, B and C. Its lease at C ends early. Client 2 holds C, D and E. */
const [A, B, C, D, E] = [0, 1, 2, 3, 4] as const;
const COUNTER = 'holdfast:\u0001fence';

const stages: Stage[] = [];
let shim: ClockShim | null = null;
afterEach(async () => {
  for (const stage of stages.splice(0)) await stage[Symbol.asyncDispose]();
  shim?.remove();
  shim = null;
});

function cut(process: Process, ...nodes: number[]): void {
  for (const node of nodes) {
    process.proxies[node]?.refuse();
    process.proxies[node]?.cut();
  }
}

async function stageWithShim(): Promise<Stage> {
  shim = makeClockShim();
  const env = shim.env;
  const stage = await startRedlockStage(5, (index) => (index === C ? { env } : {}));
  stages.push(stage);
  return stage;
}

/** Other locks have raised the counter of one node above those of the others. */
async function raiseCounter(stage: Stage, node: number): Promise<void> {
  await stage.admins[node]?.set(COUNTER, `${(Date.now() + 60_000) * 1000}`);
}

/**
 * Kleppmann's second schedule, with a jump of C's clock. Resolves to the fences of the two holders, in order.
 */
async function overlap(stage: Stage, first: Process, second: Process): Promise<[bigint, bigint]> {
  await raiseCounter(stage, A);
  cut(first, D, E);
  const one = await first.locks.mutex('x').acquire({ ttlMs: 30_000 });
  shim?.set(30);
  cut(second, A, B);
  const two = await second.locks.mutex('x').acquire({ ttlMs: 30_000, waitMs: 15_000 });
  one.assertHeld();
  two.assertHeld();
  return [one.fence, two.fence];
}

describe('row 36: two holders at once, because the clock of one node jumped', () => {
  it('cannot be prevented, but their fences differ: a fence gate lets only the later one write', async () => {
    const stage = await stageWithShim();
    const [first, second] = [await stage.process(), await stage.process()];
    const [one, two] = await overlap(stage, first, second);
    expect(two).toBeGreaterThan(one);
    const gate = memoryFenceGate();
    await gate.check('data', two);
    await expect(gate.check('data', one)).rejects.toMatchObject({ code: 'STALE_FENCE' });
  });

  it('the shortcut that takes the greatest vote as the fence fails this schedule', async () => {
    const stage = await stageWithShim();
    const [first, second] = [await stage.mutant(maxOfTheVotes), await stage.mutant(maxOfTheVotes)];
    const [one, two] = await overlap(stage, first, second);
    expect(two).toBeLessThan(one);
  });

  it('the holder that has lost its majority is told within one renewal, and cannot renew', async () => {
    const stage = await stageWithShim();
    const [first, second] = [await stage.process(), await stage.process()];
    cut(first, D, E);
    // A renewal before the second claim would give C back to the first holder.
    const one = await first.locks.mutex('x').acquire({ ttlMs: 20_000, renewEveryMs: 4_000 });
    shim?.set(30);
    cut(second, A, B);
    const two = await second.locks.mutex('x').acquire({ ttlMs: 30_000, waitMs: 15_000 });
    for (const proxy of first.proxies) proxy.pass();
    await eventually('the first holder is notified', () => one.signal.aborted, 15_000);
    expect(one.signal.reason).toMatchObject({ how: 'taken' });
    two.assertHeld();
  });
});

describe('row 37: a node of the majority crashes without persistence and is back at once', () => {
  it('two may hold; if the clocks are right, the later one has the greater fence', async () => {
    const stage = await startRedlockStage();
    stages.push(stage);
    const [first, second] = [await stage.process(), await stage.process()];
    cut(first, D, E);
    const one = await first.locks.mutex('x').acquire({ ttlMs: 30_000 });
    const server = stage.nodes.servers[C];
    server?.kill('SIGKILL');
    await server?.exited();
    await server?.start();
    cut(second, A, B);
    const two = await second.locks.mutex('x').acquire({ ttlMs: 30_000, waitMs: 15_000 });
    one.assertHeld();
    two.assertHeld();
    expect(two.fence).toBeGreaterThan(one.fence);
  });

  it('while a majority keeps its data, fences rise after a crash', async () => {
    const stage = await startRedlockStage();
    stages.push(stage);
    const [first, second] = [await stage.process(), await stage.process()];
    await raiseCounter(stage, A);
    const one = await first.locks.mutex('x').acquire({ ttlMs: 30_000 });
    expect(await one.release()).toBe(true);
    const server = stage.nodes.servers[A];
    server?.kill('SIGKILL');
    await server?.exited();
    await server?.start();
    const two = await second.locks.mutex('x').acquire({ ttlMs: 30_000 });
    expect(two.fence).toBeGreaterThan(one.fence);
  });
});
