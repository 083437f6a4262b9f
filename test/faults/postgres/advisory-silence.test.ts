import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Hold } from '../../../src/index.ts';
import { startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { findProgram } from '../../../src/torture/servers/find.ts';
import { AdvisoryStage } from '../../postgres/support/advisory-stage.ts';
import { type PostgresServer, startPostgres } from '../../support/servers/postgres.ts';
import { turns } from '../../support/waiting/event-loop-turns.ts';
import { eventually } from '../../support/waiting/eventually.ts';
import { renewed } from '../../support/waiting/renewed.ts';

/** Each loss takes as long as a hold is trusted, so all of them start together. */
let server: PostgresServer;
let stage: AdvisoryStage;
const running = new Map<string, Promise<void>>();

function lossOf(hold: Hold): Promise<number> {
  const { signal } = hold;
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(performance.now())));
}

async function proxied() {
  const proxy = await startFaultProxy(server.port);
  const url = new URL(stage.url);
  url.port = String(proxy.port);
  return { proxy, locks: stage.locks({ store: { url: url.href } }) };
}

async function swallow(way: 'both' | 'toClient' | 'toServer'): Promise<void> {
  const { proxy, locks } = await proxied();
  const name = `swallow ${way}`;
  const hold = await locks.mutex(name).acquire();
  const lost = lossOf(hold);
  const next = stage
    .locks()
    .mutex(name)
    .acquire({ waitMs: 60_000 })
    .then(async () => {
      await turns();
      return performance.now();
    });
  next.catch(() => {});
  await renewed(hold);
  const silentAt = performance.now();
  proxy.drop(way);
  const lostAt = await lost;
  // Eight seconds, and room for a busy machine.
  expect(lostAt - silentAt).toBeLessThan(12_000);
  // The proxy closes its connection to the server too, which then frees the lock: not before the
  // loss.
  expect(lostAt).toBeLessThanOrEqual(await next);
  expect(hold.signal.reason).toMatchObject({ code: 'HOLD_LOST', how: 'session' });
  proxy.pass();
  (await locks.mutex(`after ${way}`).acquire()).assertHeld();
  await proxy.stop();
}

async function stopBackend(): Promise<void> {
  const [a, b] = [stage.locks(), stage.locks()];
  const hold = await a.mutex('stopped').acquire();
  const lost = lossOf(hold);
  const [pid] = await stage.sessionsWith('stopped');
  const wake = server.stopBackend(pid ?? 0);
  try {
    await lost;
    expect(await b.mutex('stopped').tryAcquire()).toBeNull();
    // Other locks use another session meanwhile.
    (await a.mutex('elsewhere').acquire()).assertHeld();
  } finally {
    wake();
  }
  (await b.mutex('stopped').acquire()).assertHeld();
}

async function leaveIdle(): Promise<void> {
  const locks = stage.locks({ owner: 'idle-session' });
  let pid = 0;
  // On a stalled machine a session may have been left already.
  await eventually('a session is idle', async () => {
    await (await locks.mutex('idle').acquire()).release();
    const [row] = await stage.query<{ pid: number }>(
      "SELECT pid FROM pg_stat_activity WHERE application_name = 'idle-session'",
    );
    pid = row?.pid ?? 0;
    return pid > 0;
  });
  const wake = server.stopBackend(pid);
  try {
    const startedAt = performance.now();
    (await locks.mutex('idle').acquire({ waitMs: 30_000 })).assertHeld();
    const tookMs = performance.now() - startedAt;
    expect(tookMs).toBeGreaterThan(2_500);
    expect(tookMs).toBeLessThan(7_500);
  } finally {
    wake();
  }
}

async function vanish(): Promise<void> {
  findProgram({ title: 'ip', binary: 'ip', folders: ['/usr/sbin', '/sbin'], packages: ['iproute2'] });
  // Server and holder are in a network namespace whose loopback goes down. The witness uses a local
  // socket.
  const script = fileURLToPath(new URL('./support/vanished-host.ts', import.meta.url));
  const args = ['-n', process.execPath, '--import', 'tsx', script];
  const { stdout } = await promisify(execFile)('unshare', args, { timeout: 60_000 });
  const { lostAfterMs, freedAfterMs, how } = JSON.parse(stdout) as Record<string, number | string>;
  expect(how).toBe('session');
  expect(lostAfterMs).toBeLessThanOrEqual(12_000);
  expect(freedAfterMs).toBeGreaterThan(lostAfterMs as number);
  expect(freedAfterMs).toBeLessThan(25_000);
}

const CASES: Readonly<Record<string, () => Promise<void>>> = {
  'row 42: a link that drops every packet loses the hold by its deadline, before another holds': () =>
    swallow('both'),
  'row 42: so does a link that drops replies': () => swallow('toClient'),
  'row 42: so does a link that drops requests': () => swallow('toServer'),
  'row 43: a paused backend loses the hold by its deadline, though the server still shows the lock':
    stopBackend,
  'row 43: an idle session that does not answer is left sooner, and another is opened': leaveIdle,
  'row 41: a host that vanishes is notified by its own clock, and the server frees its locks within seconds':
    vanish,
};

describe('the server falls silent', () => {
  beforeAll(async () => {
    server = await startPostgres();
    stage = await AdvisoryStage.on(server);
    for (const [title, run] of Object.entries(CASES)) {
      const outcome = run();
      outcome.catch(() => {});
      running.set(title, outcome);
    }
  });
  afterAll(async () => {
    await stage?.end();
    await server?.stop();
  });
  it.each(Object.keys(CASES))('%s', async (title) => await running.get(title), 90_000);
});
