import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { describe, expect, it } from 'vitest';
import { type Stage, startRedlockStage } from '../../redlock/support/stage.ts';
import { LIBRARIES } from '../../support/clients/redis-clients.ts';
import { worksAgain } from '../../support/outage/callers.ts';
import { compiled } from '../../support/process/compiled.ts';
import { startRedisNodes } from '../../support/servers/redis-nodes.ts';

const CALLERS = fileURLToPath(new URL('./support/outage-program.ts', import.meta.url));
const SECONDS = Number(process.env.HOLDFAST_OUTAGE_SECONDS ?? 4);

interface Measured {
  readonly heapMb: number;
  /** Processor time of one call. */
  readonly cpuMs: number;
  /** Holds a second. */
  readonly rate: number;
}

interface Report {
  readonly up: Measured;
  readonly down: Measured;
  readonly idleShare: number;
}

describe.each(['SIGKILL', 'SIGSTOP'] as const)('a minority that is out of reach (%s)', (signal) => {
  it.concurrent.each(LIBRARIES)(
    'costs neither memory nor processor time, under %s',
    async (library) => {
      await using nodes = await startRedisNodes(3);
      const args = [compiled(CALLERS), library, `${SECONDS}`, ...nodes.urls];
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
      const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
      expect((await lines.next()).value).toBe('up');
      nodes.servers[2]?.kill(signal);
      if (signal === 'SIGKILL') await nodes.servers[2]?.exited();
      child.stdin.write('down\n');
      const report = JSON.parse(String((await lines.next()).value)) as Report;
      child.stdin.end();
      if (child.exitCode === null) await once(child, 'exit');
      nodes.servers[2]?.kill('SIGCONT');
      // Compared with the time before, since the machine may be busy.
      expect(report.down.rate).toBeGreaterThan(report.up.rate / 4);
      expect(report.down.heapMb - report.up.heapMb).toBeLessThan(20);
      expect(report.down.cpuMs).toBeLessThan(report.up.cpuMs * 3);
      expect(report.idleShare).toBeLessThan(0.1);
    },
    (SECONDS + 60) * 1_000,
  );
});

/** How many keys all nodes have written: two for each grant. */
async function keysWritten({ admins }: Stage): Promise<number> {
  let calls = 0;
  for (const admin of admins) {
    const info = await admin.info('commandstats');
    for (const [, count] of info.matchAll(/cmdstat_set:calls=(\d+)/g)) calls += Number(count);
  }
  return calls;
}

it.concurrent.each(LIBRARIES)(
  'under %s, claims that were given up while no node could be reached are not sent when they are back',
  async (library) => {
    await using stage = await startRedlockStage(3);
    const { locks, proxies } = await stage.process({ ttlMs: 60_000 }, library);
    await locks.mutex('warm').run(() => {});
    const before = await keysWritten(stage);
    for (const proxy of proxies) {
      proxy.refuse();
      proxy.cut();
    }
    // So soon that a command that still waits for its connection would be sent.
    await sleep(20);
    const controller = new AbortController();
    const claims = Array.from({ length: 200 }, (_, n) =>
      locks.mutex(`given up ${n}`).acquire({ signal: controller.signal }),
    );
    await sleep(20);
    controller.abort(new Error('enough'));
    for (const outcome of await Promise.allSettled(claims))
      expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'enough' } });
    for (const proxy of proxies) proxy.pass();
    await worksAgain(locks, 'after');
    await sleep(1_000);
    // Written by the lock that was acquired last, which may have taken a few attempts.
    expect((await keysWritten(stage)) - before).toBeLessThanOrEqual(3 * 10);
    for (let n = 0; n < 200; n += 1) expect(await stage.keys(`given up ${n}`)).toBe(0);
  },
  60_000,
);
