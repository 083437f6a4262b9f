import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { LIBRARIES } from '../support/clients/redis-clients.ts';
import { useStage } from '../support/hooks/use-stage.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { startStage } from './support/stage.ts';

const stage = await useStage(startStage());

const scriptCalls = async (): Promise<number> =>
  Number(/cmdstat_evalsha:calls=(\d+)/.exec(await stage.admin.info('commandstats'))?.[1] ?? 0);

describe.each(LIBRARIES)('requests of one tick travel together, under %s', (library) => {
  it('1,000 tasks: at most 30 calls for 1,000 claims, their releases included', async () => {
    const locks = await stage.locks(library, stage.server.url);
    await (await locks.mutex('warm').acquire()).release();
    await stage.admin.config('RESETSTAT');
    const rounds = 5;
    await Promise.all(
      Array.from({ length: 1_000 }, async (_, task) => {
        for (let round = 0; round < rounds; round += 1) {
          const hold = await locks.mutex(`task-${task}`).acquire();
          expect(await hold.release()).toBe(true);
        }
      }),
    );
    expect((await scriptCalls()) / rounds).toBeLessThanOrEqual(30);
  });

  it('several locks are acquired in one call and released in one', async () => {
    const locks = await stage.locks(library, stage.server.url);
    await (await locks.mutex('warm').acquire()).release();
    await stage.admin.config('RESETSTAT');
    const hold = await locks.all(['c', 'a', 'b', 'd']).acquire();
    expect([hold.names, await scriptCalls()]).toEqual([['a', 'b', 'c', 'd'], 1]);
    expect(await hold.release()).toBe(true);
    expect(await scriptCalls()).toBe(2);
  });

  it('10,000 holds are renewed in at most 100 calls a round', async () => {
    const locks = await stage.locks(library, stage.server.url, { ttlMs: 30_000, renewEveryMs: 3_000 });
    let renewed = 0;
    locks.on('renewed', () => {
      renewed += 1;
    });
    const holds = await Promise.all(
      Array.from({ length: 10_000 }, (_, n) => locks.mutex(`hold-${n}`).acquire()),
    );
    await stage.admin.config('RESETSTAT');
    renewed = 0;
    let calls = 0;
    await eventually('a round is over, and nothing is on its way', async () => {
      const before = { renewed, calls: await scriptCalls() };
      await sleep(200);
      calls = await scriptCalls();
      return renewed >= 10_000 && renewed === before.renewed && calls === before.calls;
    });
    expect(calls / (renewed / 10_000)).toBeLessThanOrEqual(100);
    expect(holds.every((hold) => hold.remainingMs > 0)).toBe(true);
    expect(await locks.releaseAll()).toBe(10_000);
  });
});

async function numbers(): Promise<{ commands: number; bytes: number }> {
  const { admin } = stage;
  return {
    commands: Number(/total_commands_processed:(\d+)/.exec(await admin.info('stats'))?.[1]),
    bytes: Number(/used_memory:(\d+)/.exec(await admin.info('memory'))?.[1]),
  };
}

/** Resolves when every waiter has entered the queue and asked once more, and no command is pending. */
async function atRest(): Promise<{ commands: number; bytes: number }> {
  for (let before = await numbers(); ; ) {
    await sleep(250);
    const now = await numbers();
    // Reading the statistics takes two commands.
    if (now.commands - before.commands <= 4) return now;
    before = now;
  }
}

it('the commands and memory of a handoff do not grow with the queue', async () => {
  const { admin, server } = stage;
  const handoffCommands: number[] = [];
  for (const waiters of [10, 10_000]) {
    const locks = await stage.locks('ioredis', server.url, { waitMs: 120_000 });
    const name = `long-${waiters}`;
    const hold = await locks.mutex(name).acquire();
    const empty = await numbers();
    const controller = new AbortController();
    const handoffs = 5;
    let passed = 0;
    let onPassed = (): void => {};
    const all = Array.from({ length: waiters }, () =>
      locks
        .mutex(name)
        .run(
          () =>
            new Promise<void>((resolve) => {
              passed += 1;
              // The last holder stays, so that no other command is counted.
              if (passed <= handoffs) resolve();
              else onPassed();
              controller.signal.addEventListener('abort', () => resolve());
            }),
          { signal: controller.signal },
        )
        .catch(() => null),
    );
    while (Number(await admin.zcard(`holdfast:\u0001queue:${name}`)) < waiters) await sleep(20);
    // A waiter that entered a moment ago does not confirm its grant. With few waiters that would be all of
    // them.
    await sleep(1_200);
    const full = await atRest();
    if (waiters === 10_000) expect((full.bytes - empty.bytes) / waiters).toBeLessThanOrEqual(400);
    const settled = new Promise<void>((resolve) => {
      onPassed = resolve;
    });
    await hold.release();
    await settled;
    const after = await numbers();
    handoffCommands.push((after.commands - full.commands) / (handoffs + 1));
    controller.abort();
    await Promise.all(all);
    await locks.close();
  }
  const [few = 0, many = 0] = handoffCommands;
  expect(many).toBeLessThanOrEqual(few * 1.5);
  expect(many).toBeLessThanOrEqual(45);
}, 60_000);
