import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import zookeeper from 'node-zookeeper-client';
import { Pool } from 'pg';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { createLocks, memoryStore } from '../../src/index.ts';
import { type Schedule, schedule, type Tick } from '../../src/schedule/index.ts';
import { postgresAdvisoryStore } from '../../src/stores/postgres/index.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { faultyStore } from '../../src/testing/index.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';
import { compiled } from '../support/process/compiled.ts';
import { at, EVERY_MINUTE, MINUTE_MS, makeWorld } from './support/world.ts';

const IDLER = fileURLToPath(new URL('../support/schedule/idler.ts', import.meta.url));

afterEach(() => vi.restoreAllMocks());

describe('the options of a schedule', () => {
  const make = (options: object = {}, name = 'job', fn: unknown = () => {}): Schedule =>
    schedule(createLocks(memoryStore()), name, EVERY_MINUTE, fn as () => void, options as never);

  it.each([
    ['a misspelled option', 'did you mean maxLateMs?', () => make({ maxLate: 5 })],
    ['an option of acquire', 'known: ttlMs', () => make({ waitMs: 5 })],
    ['a misspelled option of stop', 'did you mean drainMs?', () => make().stop({ drain: 1 } as never)],
    ['another way to miss', "must be 'skip' or 'once'", () => make({ missed: 'all' })],
    ['maxLateMs with skip', "needs missed: 'once'", () => make({ maxLateMs: 5 })],
    ['a lateness of 0', 'from 1 to', () => make({ missed: 'once', maxLateMs: 0 })],
    ['an empty name', '1 to 512 bytes', () => make({}, '')],
    ['no function', 'of type function', () => make({}, 'job', 5)],
    [
      'something else than locks',
      'the result of createLocks',
      () => schedule({} as never, 'job', EVERY_MINUTE, () => {}),
    ],
    [
      'a source that goes back',
      'gives a later Date',
      () => schedule(createLocks(memoryStore()), 'job', { next: () => new Date(0) }, () => {}),
    ],
  ])('refuses %s', async (_, text, call) => {
    await expect((async () => await call())()).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      message: expect.stringContaining(text),
    });
  });

  it('refuses a store that does not remember', () => {
    const clients = [
      postgresAdvisoryStore(new Pool({ port: 1 })),
      zookeeperStore(zookeeper.createClient('127.0.0.1:1')),
    ];
    for (const store of clients) {
      expect(() => schedule(createLocks(store), 'job', EVERY_MINUTE, () => {})).toThrow(
        expect.objectContaining({ code: 'UNSUPPORTED', message: 'This store has no schedule' }),
      );
    }
  });

  it('keeps the process alive until it is stopped', async () => {
    const child = spawn(process.execPath, [compiled(IDLER)], { stdio: ['ignore', 'pipe', 'inherit'] });
    let said = '';
    child.stdout.on('data', (data: Buffer) => {
      said += data.toString();
    });
    const [code] = await once(child, 'close');
    expect([said, code]).toEqual(['scheduled\nstill alive\nstopped\nended with 0\n', 0]);
  });

  it('refuses locks that are closed, and a signal that has aborted', async () => {
    const locks = createLocks(memoryStore());
    const signal = AbortSignal.abort(new Error('over'));
    expect(() => schedule(locks, 'job', EVERY_MINUTE, () => {}, { signal })).toThrow('over');
    await locks.close();
    expect(() => schedule(locks, 'job', EVERY_MINUTE, () => {})).toThrow(
      expect.objectContaining({ code: 'CLOSED' }),
    );
  });

  it('ends with its signal, and with its locks', async () => {
    const { clock, runs, locks, job } = makeWorld();
    const controller = new AbortController();
    const own = locks();
    const jobs = [job(own, { signal: controller.signal }), job(own)];
    controller.abort();
    await clock.settle();
    expect(jobs.map((each) => each.next === null)).toEqual([true, false]);
    await own.close();
    expect(jobs.map((each) => each.next)).toEqual([null, null]);
    await clock.advance(2 * MINUTE_MS);
    expect([runs.length, clock.timers]).toEqual([0, 0]);
  });

  it('warns of a run that fails where nobody listens, and of one that continues after stop', async () => {
    const { clock, locks } = makeWorld();
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const own = schedule(locks(), 'job', EVERY_MINUTE, async ({ slot }) => {
      if (slot.getUTCMinutes() === 1) throw new Error('no luck');
      await new Promise(() => {});
    });
    await clock.advance(91_000);
    const stopping = own.stop({ drainMs: 1_000 });
    await clock.advance(1_100);
    await stopping;
    expect(warned.mock.calls.map(([text, options]) => [text, (options as { code: string }).code])).toEqual([
      [expect.stringContaining('no luck'), 'HOLDFAST_SCHEDULE'],
      [expect.stringContaining('"job" was still at work 1000 ms after'), 'HOLDFAST_DRAIN'],
    ]);
  });

  it('says nothing of a run when stop finds only a command to the store', async () => {
    const { clock, store } = makeWorld();
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    const locks = createLocks(
      faultyStore(connectionTo(store), () => 'hang'),
      { clock },
    );
    const own = schedule(locks, 'job', EVERY_MINUTE, () => {});
    await clock.advance(30_500);
    const stopping = own.stop({ drainMs: 0 });
    await clock.advance(1);
    await stopping;
    expect(warned).not.toHaveBeenCalled();
    await clock.advance(MINUTE_MS);
  });

  it('warns once of a next that keeps failing in the same way', async () => {
    const { clock, locks } = makeWorld();
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {});
    let why: string | null = null;
    const when = {
      next: (after: Date) => {
        if (why !== null) throw new Error(why);
        return new Date(Math.floor(after.getTime() / MINUTE_MS + 1) * MINUTE_MS);
      },
    };
    const own = schedule(locks(), 'job', when, () => {});
    const texts = (): string[] => warned.mock.calls.map(([text]) => String(text));
    why = 'no calendar';
    await clock.advance(2 * MINUTE_MS);
    expect(texts()).toEqual([expect.stringContaining('no calendar')]);
    why = 'another reason';
    await clock.advance(MINUTE_MS);
    expect(texts().slice(1)).toEqual([expect.stringContaining('another reason')]);
    why = null;
    await clock.advance(MINUTE_MS);
    why = 'another reason';
    await clock.advance(2 * MINUTE_MS);
    expect(texts()).toHaveLength(3);
    await own.stop();
  });

  it('gives a tick its slot, its lateness, a hold with the metadata, and a rising fence', async () => {
    const { clock, locks } = makeWorld();
    const ticks: Tick[] = [];
    const own = schedule(locks(), 'job', EVERY_MINUTE, (tick) => void ticks.push(tick), {
      metadata: { a: 1 },
      ttlMs: 7_000,
    });
    expect(own.next).toEqual(new Date(at(1)));
    await clock.advance(2 * MINUTE_MS);
    const [first, second] = ticks;
    expect(first).toMatchObject({ name: 'job', slot: new Date(at(1)), lateMs: 0 });
    expect(first?.hold).toMatchObject({ name: 'job', metadata: { a: 1 } });
    expect(first?.hold.metadata).toEqual({ a: 1 });
    expect(second?.hold.fence).toBeGreaterThan(first?.hold.fence ?? 0n);
    expect(first?.signal.aborted).toBe(false);
    await own.stop();
  });
});
