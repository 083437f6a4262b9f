import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, vi } from 'vitest';
import { createLocks } from '../../../src/index.ts';
import { etcdStore } from '../../../src/stores/etcd/index.ts';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { startOneMember } from '../../etcd/support/one-member.ts';
import { compiled } from '../../support/process/compiled.ts';
import { eventually } from '../../support/waiting/eventually.ts';

/** A cluster that cannot be reached for a while, and what the callers leave behind. */
/** Compiled before the tests begin: the compiler blocks the event loop, and so the proxies. */
const PROGRAM = compiled(fileURLToPath(new URL('./outage-program.ts', import.meta.url)));
// Nearly all of the time is spent waiting.
vi.setConfig({ maxConcurrency: 9 });
const { cluster, direct, atTheEnd } = await startOneMember();

async function proxy(): Promise<FaultProxy> {
  const started = await startFaultProxy(cluster.members[0]?.port ?? 0);
  atTheEnd(() => started.stop());
  return started;
}

const refuse = (link: FaultProxy): void => {
  link.refuse();
  link.cut();
};
const LINKS: Record<string, (link: FaultProxy) => void> = {
  refuses: refuse,
  'swallows everything': (link) => link.drop('both'),
  'loses the replies': (link) => link.drop('toClient'),
};

/**
 * Runs a program, breaks its connection when it is ready, and resolves to its output and its end.
 */
async function runProgram(fail: (link: FaultProxy) => void): Promise<string> {
  const link = await proxy();
  const args = ['--unhandled-rejections=strict', PROGRAM];
  const child = spawn(process.execPath, [...args, `etcd://127.0.0.1:${link.port}`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  atTheEnd(() => void child.kill('SIGKILL'));
  let output = '';
  child.stdout.on('data', (data: Buffer) => {
    if (output === '') {
      fail(link);
      child.stdin.end('go\n');
    }
    output += data.toString();
  });
  const [code, signal] = (await once(child, 'close')) as [number | null, string | null];
  return `${output}${code ?? signal}`;
}

describe.concurrent.each(Object.entries(LINKS))('while the link to etcd %s', (_, fail) => {
  it('a program ends no earlier than each of its calls', { timeout: 120_000 }, async () => {
    const said = (await runProgram(fail)).split('\n');
    expect(said).toEqual([
      'ready',
      ...['acquire', 'tryAcquire', 'run', 'once', 'take', 'extend', 'inspect', 'release'].map(
        (call) => `${call} STORE`,
      ),
      'close ok',
      'done',
      '0',
    ]);
  });
});

describe.concurrent.each(Object.entries(LINKS))('claims given up while the link to etcd %s', (how, fail) => {
  it('are not made when it comes back', { timeout: 120_000 }, async () => {
    const link = await proxy();
    const client = cluster.client({ hosts: [`http://127.0.0.1:${link.port}`] });
    const locks = createLocks(etcdStore(client));
    atTheEnd(() => locks.close({ drainMs: 0 }));
    await (await locks.mutex('warm').acquire({ waitMs: 30_000 })).release();
    const prefix = `given-up-${how.length}-`;
    const made: string[] = [];
    const watcher = await direct.watch().prefix(`holdfast/${prefix}`).create();
    watcher.on('put', (kv) => void made.push(kv.key.toString()));
    fail(link);
    const names = Array.from({ length: 200 }, (_, n) => `${prefix}${n}`);
    const waits = names.map(async (name, n) => {
      const signal = AbortSignal.timeout(300 + n * 10);
      // For one half of the claims a lease exists; for the other half it has to be granted first.
      const ttlMs = n % 2 === 0 ? 30_000 : 20_000;
      await expect(locks.mutex(name).acquire({ signal, ttlMs, waitMs: 60_000 })).rejects.toThrow();
    });
    await Promise.all(waits);
    link.pass();
    await sleep(8_000);
    await watcher.cancel();
    // With only the replies lost, requests reach the cluster and take effect.
    if (how !== 'loses the replies') expect(made).toEqual([]);
    const left = (): Promise<string[]> => direct.getAll().prefix(`holdfast/${prefix}`).keys();
    await eventually('all are gone', async () => (await left()).length === 0);
  });
});
