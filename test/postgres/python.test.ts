import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { install } from '../../src/torture/servers/find.ts';
import { eventually, later } from '../support/waiting/eventually.ts';
import { LeaseStage, request } from './support/lease-stage.ts';

const PYTHON = '/usr/bin/python3';
const EXAMPLE = fileURLToPath(new URL('../../examples/postgres-lease.py', import.meta.url));

/**
 * Takes the lock, reports it, and releases it after a line of input, or holds it until it is lost.
 */
const PROGRAM = `
import importlib.util, sys, time, psycopg2
spec = importlib.util.spec_from_file_location("lease", sys.argv[1])
lease = importlib.util.module_from_spec(spec)
spec.loader.exec_module(lease)

def connect():
    connection = psycopg2.connect(sys.argv[2])
    connection.autocommit = True
    return connection

try:
    with lease.lock(connect, "job", ttl_ms=6000, wait_s=float(sys.argv[3])) as hold:
        print("held", hold.fence, flush=True)
        sys.stdin.readline()
        hold.assert_held()
        while sys.argv[4] == "until lost":
            hold.assert_held()
            time.sleep(0.05)
    print("released", flush=True)
except lease.LockTimeout:
    print("timeout", flush=True)
except lease.HoldLost:
    print("lost", flush=True)
`;

let stage: LeaseStage;
const running = new Set<ChildProcess>();
afterEach(() => {
  for (const child of running) child.kill('SIGKILL');
});
beforeAll(async () => {
  const hasClient = (): boolean => spawnSync(PYTHON, ['-c', 'import psycopg2']).status === 0;
  if (!hasClient()) install(['python3', 'python3-psycopg2']);
  if (!hasClient()) throw new Error('psycopg2 is needed (Debian, Ubuntu: apt-get install python3-psycopg2)');
  stage = await LeaseStage.start();
  await stage.store().claim(request('warm'));
});
afterAll(() => stage[Symbol.asyncDispose]());

it('is on the page of the store', () => {
  const page = readFileSync(new URL('../../docs/stores/postgres.md', import.meta.url), 'utf8');
  // After the text about the file.
  const program = readFileSync(EXAMPLE, 'utf8')
    .replace(/^""".*?"""/s, '')
    .trim();
  expect(page).toContain(`\`\`\`python\n${program}\n\`\`\``);
});

/** The program, and the lines that it has printed. */
function startPython(waitS: number, mode = '') {
  const child = spawn(PYTHON, ['-c', PROGRAM, EXAMPLE, stage.url, String(waitS), mode]);
  running.add(child);
  child.once('exit', () => running.delete(child));
  const lines: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => void lines.push(line));
  let stderr = '';
  child.stderr.on('data', (data) => {
    stderr += data;
  });
  const printed = async (what: string): Promise<string> => {
    await eventually(`${what}: ${stderr}`, () => lines.some((line) => line.startsWith(what)));
    return lines.find((line) => line.startsWith(what)) ?? '';
  };
  return { printed, go: () => child.stdin.write('\n') };
}

describe('the example in Python', () => {
  it('holds beyond its TTL, excludes the library, and hands the lock off', async () => {
    const python = startPython(10);
    const fence = BigInt((await python.printed('held')).split(' ')[1] ?? 0);
    const locks = stage.locks();
    const waiting = later(locks.mutex('job').acquire());
    await eventually('the waiter', async () => (await locks.inspect('job')).waiters.length === 1);
    // Longer than its TTL: the thread has renewed it.
    await new Promise((resolve) => setTimeout(resolve, 6_500));
    expect((await locks.inspect('job')).holders[0]?.fence).toBe(fence);
    python.go();
    await python.printed('released');
    const hold = await waiting;
    expect(hold.fence).toBeGreaterThan(fence);
    await hold.release();
  });

  it('waits in the queue, times out, and learns of an eviction', async () => {
    const locks = stage.locks();
    const hold = await locks.mutex('job').acquire();
    await startPython(0.5).printed('timeout');
    await eventually('no waiter', async () => (await locks.inspect('job')).waiters.length === 0);
    const python = startPython(30, 'until lost');
    await eventually('the waiter', async () => (await locks.inspect('job')).waiters.length === 1);
    await hold.release();
    await python.printed('held');
    const [holder] = (await locks.inspect('job')).holders;
    expect(await locks.evict('job', { id: holder?.id ?? '' })).toBe(true);
    // Its next renewal is refused.
    python.go();
    await python.printed('lost');
  });
});
