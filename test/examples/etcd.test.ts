import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stopPrograms } from '../support/process/program.ts';
import { type EtcdCluster, startEtcdCluster } from '../support/servers/etcd.ts';
import { compileExamples, eventually, startExample } from './support/example.ts';

let etcd: EtcdCluster;
beforeAll(async () => {
  compileExamples('etcd');
  etcd = await startEtcdCluster({ members: 1 });
});
afterAll(async () => {
  await stopPrograms();
  await etcd?.stop();
});

describe('examples/etcd.ts', () => {
  it('leads for one term in each process, one after the other', async () => {
    const programs = [1, 2].map(() => startExample('etcd', etcd.addresses, {}));
    const terms = (stdout: string): bigint[] =>
      Array.from(stdout.matchAll(/^term (\d+) is mine$/gm), ([, fence]) => BigInt(fence ?? 0));
    const results = await Promise.all(programs.map((program) => program.result()));
    for (const { code, stdout, stderr } of results) {
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
      expect(terms(stdout)).toHaveLength(1);
      expect(stdout).toContain(`term ${terms(stdout)[0]}, beat 5`);
    }
    expect(new Set(results.flatMap(({ stdout }) => terms(stdout))).size).toBe(2);
  });

  it('resigns when it is interrupted, and the next leads at once', async () => {
    const programs = [1, 2].map(() => startExample('etcd', etcd.addresses, {}));
    const leads = (program: (typeof programs)[number]): boolean => program.stdout.includes('is mine');
    await eventually('one leads', () => programs.some(leads));
    const first = programs.find(leads);
    const second = programs.find((program) => program !== first);
    first?.child.kill('SIGINT');
    expect(await first?.result()).toMatchObject({ code: 0 });
    expect(first?.stdout).not.toContain('beat 5');
    expect(await second?.result()).toMatchObject({ code: 0, stdout: expect.stringContaining('beat 5') });
  });
});
