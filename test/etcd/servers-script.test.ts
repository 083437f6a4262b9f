import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { eventually } from '../support/waiting/eventually.ts';

it('npm run servers also starts and stops an etcd', async () => {
  const script = fileURLToPath(new URL('../../scripts/servers.ts', import.meta.url));
  // The other servers are given by their URLs, so that only etcd is started.
  const child = spawn(process.execPath, ['--import', 'tsx', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      HOLDFAST_REDIS_URL: 'redis://localhost:1',
      HOLDFAST_POSTGRES_URL: 'postgres://localhost:2/x',
      HOLDFAST_MYSQL_URL: 'mysql://localhost:5/x',
      HOLDFAST_ZOOKEEPER_URL: 'zookeeper://localhost:3',
      HOLDFAST_ETCD_URL: '',
    },
  });
  onTestFinished(() => void child.kill());
  let stdout = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  await eventually('all are there', () => stdout.includes('Ctrl-C') || child.exitCode !== null, 60_000);
  const [, url = ''] = /: (etcd:\S+)/.exec(stdout) ?? [];
  expect(stdout.match(/redis:|postgres:|mysql:|etcd:|zookeeper:/g)).toHaveLength(5);
  const locks = await openLocks(url);
  await locks.withLock('x', () => {});
  await locks.close();
  child.kill();
  expect(await once(child, 'exit')).toEqual([0, null]);
});

it('CONTRIBUTING.md lists it with the other commands', () => {
  const guide = readFileSync(new URL('../../CONTRIBUTING.md', import.meta.url), 'utf8');
  expect(guide).toMatch(/^\| `npm run servers` .*etcd/m);
});
