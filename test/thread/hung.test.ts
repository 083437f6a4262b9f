import { type ChildProcess, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Locks, openLocks } from '../../src/index.ts';
import type { Backend } from '../../src/torture/backends/backend.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { compiled } from '../support/process/compiled.ts';
import { eventually } from '../support/waiting/eventually.ts';

const HUNG = fileURLToPath(new URL('./support/hung.ts', import.meta.url));
/** A test that gets no processor time must still see a grant before the thread gives it up. */
const WITHOUT_TURN_MS = 5_000;

const STORES = ['zookeeper', 'advisory'] as const;
const backends: Backend[] = [];
const urls = {} as Record<(typeof STORES)[number], string>;
const opened: Locks[] = [];
const children = new Set<ChildProcess>();
const folder = temporaryFolder();
let files = 0;

beforeAll(async () => {
  const [zookeeper, postgres] = await Promise.all([startBackend('zookeeper'), startBackend('postgres')]);
  backends.push(zookeeper, postgres);
  urls.zookeeper = `${zookeeper.url}?sessionMs=4000`;
  urls.advisory = postgres.url.replace('lease', 'advisory');
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await Promise.all(opened.map((locks) => locks.close({ drainMs: 0 })));
  await Promise.all(backends.map((backend) => backend.stop()));
  folder.remove();
});

interface Hung {
  said(): Promise<string>;
  endBlock(): void;
  readonly exitCode: Promise<number | null>;
}

function startHung(url: string, state: string): Hung {
  files += 1;
  const endFile = folder.file(`end-${files}`);
  const args = [compiled(HUNG), url, `${WITHOUT_TURN_MS}`, endFile, state];
  const child = spawn(process.execPath, ['--unhandled-rejections=strict', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  children.add(child);
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const exitCode = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  const said = async (): Promise<string> => String((await lines.next()).value);
  return { said, endBlock: () => writeFileSync(endFile, ''), exitCode };
}

describe.concurrent.each(STORES)('%s: the thread of a process that hangs', (store) => {
  const open = async (): Promise<Locks> => {
    const locks = await openLocks(urls[store], { waitMs: 60_000 });
    opened.push(locks);
    return locks;
  };

  it.each(['waits', 'pending'])('releases a claim that no hold renews: %s', async (state) => {
    const locks = await open();
    const mutex = locks.mutex(state);
    const before = state === 'waits' ? await mutex.acquire() : null;
    const hung = startHung(urls[store], state);
    expect(await hung.said()).toBe('blocks');
    if (before === null) {
      const isHeld = async (): Promise<boolean> => (await locks.inspect(state)).holders.length > 0;
      await eventually('the grant that the process does not notice', isHeld);
    }
    await before?.release();
    // Granted during the block, which only the next line ends.
    const hold = await mutex.acquire();
    hung.endBlock();
    expect(await hung.said()).toBe('continues');
    hold.assertHeld();
    await hold.release();
    // The process has its turn afterwards.
    const [, fence = '0'] = (await hung.said()).split(' ');
    expect(BigInt(fence) > hold.fence).toBe(true);
    expect(await hung.exitCode).toBe(0);
  });

  it('gives up a hold', async () => {
    const mutex = (await open()).mutex('holds');
    const hung = startHung(urls[store], 'holds');
    expect(await hung.said()).toBe('blocks');
    const hold = await mutex.acquire();
    hung.endBlock();
    expect([await hung.said(), await hung.said()]).toEqual(['continues', 'lost']);
    await hold.release();
    expect(await hung.exitCode).toBe(0);
  });
});
