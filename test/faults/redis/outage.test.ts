import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Locks } from '../../../src/index.ts';
import { type Stage, startStage } from '../../redis/support/stage.ts';
import { LIBRARIES, type Library, PREVIOUS_LIBRARIES } from '../../support/clients/redis-clients.ts';
import {
  askForMany,
  callersOfAll,
  cpuShareOf,
  leftBehindMb,
  worksAgain,
} from '../../support/outage/callers.ts';
import { turnsAfter } from '../../support/waiting/event-loop-turns.ts';

/** Of one core, for some hundred calls a second. */
const CPU_MAX = 0.2;

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterEach(() => stage.proxy.pass());
afterAll(() => stage[Symbol.asyncDispose]());

const OUTAGES = {
  'refuses connections': () => {
    stage.proxy.refuse();
    stage.proxy.cut();
  },
  'swallows packets': () => stage.proxy.drop('both'),
} as const;

/** Locks over every client library. All of them have been used. */
async function openAll(): Promise<ReadonlyMap<Library, Locks>> {
  const all = new Map<Library, Locks>();
  for (const library of [...LIBRARIES, ...PREVIOUS_LIBRARIES]) {
    const locks = await stage.locks(library, stage.proxyUrl);
    await locks.mutex('before').run(() => {});
    all.set(library, locks);
  }
  return all;
}

// All client libraries at once: the bounds hold for all of them together.
describe('a server that is out of reach', () => {
  it.each(Object.entries(OUTAGES))(
    '%s: callers that give up leave nothing behind, and a few callers cost next to nothing',
    async (_what, begin) => {
      const all = await openAll();
      begin();
      expect(await leftBehindMb(() => callersOfAll(all.values(), 10, 5), 2_500)).toBeLessThan(5);
      const share = await cpuShareOf(() => callersOfAll(all.values(), 10, 250), CPU_MAX);
      stage.proxy.pass();
      for (const [library, locks] of all) await worksAgain(locks, `after the outage, under ${library}`);
      expect(share).toBeLessThan(CPU_MAX);
    },
  );

  it('claims that were given up before the server was back are never sent', async () => {
    const all = await openAll();
    const monitor = await stage.admin.duplicate().monitor();
    const sent = new Set<string>();
    monitor.on('monitor', (_time: string, args: string[]) => {
      for (const arg of args) if (arg.startsWith('holdfast:gone-')) sent.add(arg);
    });
    OUTAGES['refuses connections']();
    // Until then the client takes commands, and it may send again by itself what it has taken.
    await turnsAfter(200);
    const given = new AbortController();
    const outcomes = [...all].flatMap(([library, locks]) =>
      askForMany(locks, `gone-${library}`, given.signal),
    );
    await sleep(600);
    given.abort();
    stage.proxy.pass();
    expect(new Set(await Promise.all(outcomes))).toEqual(new Set(['given up']));
    for (const [library, locks] of all) await worksAgain(locks, `sent by ${library}`);
    await sleep(500);
    monitor.disconnect();
    expect([...sent]).toEqual([]);
  });
});
