import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { beforeAll, describe, expect, it } from 'vitest';
import { type FaultProxy, startFaultProxy } from '../../../src/torture/servers/fault-proxy.ts';
import { cleanups } from '../../etcd/cleanup.ts';
import { compiled } from '../../support/process/compiled.ts';
import { type Ensemble, startEnsemble } from '../../support/servers/zookeeper.ts';

/** What an outage of every member costs a process whose callers go on calling. */
const PROGRAM = fileURLToPath(new URL('./outage-program.ts', import.meta.url));
const RUN_MS = 8_000;

const atTheEnd = cleanups();
let ensemble: Ensemble;
beforeAll(async () => {
  ensemble = await startEnsemble({ members: 1, maxSessionMs: 30_000 });
  atTheEnd(() => ensemble.stop());
});

const OUTAGES: Readonly<Record<string, (proxy: FaultProxy) => void>> = {
  'refuses every connection': (proxy) => {
    proxy.refuse();
    proxy.cut();
  },
  // Longer than the run, so that the session does not expire while nothing is answered.
  'is silent, on the open connection and on new ones': (proxy) => proxy.drop('both'),
  'accepts connections and says nothing': (proxy) => {
    proxy.drop('both');
    proxy.cut();
  },
};

describe.concurrent('while ZooKeeper is out of reach', () => {
  it.each(Object.entries(OUTAGES))(
    'callers that abort, time out and try cost little memory and little work when it %s',
    async (_how, fail) => {
      const proxy = await startFaultProxy(ensemble.members[0]?.port ?? 0);
      atTheEnd(() => proxy.stop());
      const url = `zookeeper://127.0.0.1:${proxy.port}?sessionMs=20000`;
      const args = ['--expose-gc', '--unhandled-rejections=strict', compiled(PROGRAM), url, `${RUN_MS}`];
      const child = spawn(process.execPath, args, { stdio: ['pipe', 'pipe', 'inherit'] });
      atTheEnd(() => void child.kill('SIGKILL'));
      const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
      expect((await lines.next()).value).toBe('ready');
      fail(proxy);
      child.stdin.write('.');
      const { calls, grownMb, cpuShare } = JSON.parse(`${(await lines.next()).value}`) as Record<
        string,
        number
      >;
      expect(calls).toBeGreaterThan(300);
      expect(grownMb).toBeLessThan(15);
      expect(cpuShare).toBeLessThan(0.3);
      expect(await once(child, 'close')).toEqual([0, null]);
    },
  );
});
