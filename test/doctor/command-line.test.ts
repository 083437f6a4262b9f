import { linkSync } from 'node:fs';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { doctorLines } from '../../src/cli/doctor.ts';
import { painter } from '../../src/cli/text.ts';
import type { Finding } from '../../src/index.ts';
import { sqliteStore } from '../../src/stores/sqlite/index.ts';
import { startRedis } from '../../src/torture/servers/redis.ts';
import type { Server } from '../../src/torture/servers/server.ts';
import { holdfast, holdfastFile, stopAll } from '../cli/support/holdfast.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { documentedChecks } from '../support/doctor/documented.ts';
import { problemsIn } from '../support/doctor/findings.ts';
import { told } from '../support/doctor/redis.ts';

const folder = temporaryFolder();
let redis: Server;
beforeAll(async () => {
  [redis] = await Promise.all([startRedis(), holdfastFile()]);
  await told(redis, 'CONFIG', 'SET', 'requirepass', 'pass-word');
});
afterEach(stopAll);
afterAll(async () => {
  folder.remove();
  await redis.stop();
});

function doctor(url: string, ...args: readonly string[]) {
  return holdfast(['doctor', ...args], { HOLDFAST_URL: url });
}

describe('holdfast doctor', () => {
  it('prints a line for each check, and exits with 0 when all is well', async () => {
    const { code, stdout, stderr } = await doctor(`sqlite:${folder.file('good.db')}`, '--ttl', '1h');
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const lines = stdout.trim().split('\n');
    expect(lines).toHaveLength(10);
    for (const line of lines) expect(line).toMatch(/^ok {2}[a-z-]+ +\S/);
    const checks = lines.map((line) => line.split(/ +/)[1]);
    expect(documentedChecks()).toEqual(expect.arrayContaining(checks));
  });

  it('exits with 1 for a warning, and says what it means and what to do', async () => {
    const url = `redis://:pass-word@127.0.0.1:${redis.port}`;
    const { code, stdout } = await doctor(url);
    expect(code).toBe(1);
    const lines = stdout.split('\n');
    const at = lines.findIndex((line) => /^warn {2,}redis-persistence +nothing is saved/.test(line));
    expect(lines[at + 1]).toMatch(/^ {8}A restart forgets every lock/);
    expect(lines[at + 2]).toMatch(/^ {8}Set appendonly to yes/);
    expect(stdout).not.toContain('pass-word');

    const json = await doctor(url, '--json', '--ttl', '1h');
    expect(json.code).toBe(1);
    const findings = JSON.parse(json.stdout) as Finding[];
    expect(problemsIn(findings)).toEqual(['redis-persistence: warn']);
    expect(Object.keys(findings[0] ?? {}).sort()).toEqual(['advice', 'check', 'found', 'level', 'means']);
    expect(json.stdout).toContain('ttlMs is 3600000');
  });

  it('exits with 2 for a failure, also of a file that no command could open', async () => {
    const path = folder.file('linked.db');
    await sqliteStore(path).close();
    linkSync(path, folder.file('link.db'));
    const { code, stdout } = await doctor(`sqlite:${path}`);
    expect(code).toBe(2);
    expect(stdout).toMatch(/^fail {2,}sqlite-file +the file has more than one hard link/m);
  });

  it('exits with 69 when the store is out of reach, and with 64 for wrong usage', async () => {
    const [away, refused, usage] = await Promise.all([
      doctor('redis://user:pass-word@127.0.0.1:1'),
      doctor(`redis://:wrong-word@127.0.0.1:${redis.port}`),
      doctor('memory:', '--ttl', '30'),
    ]);
    expect(away).toMatchObject({ code: 69, stdout: '' });
    expect(refused).toMatchObject({ code: 69, stdout: '' });
    expect(away.stderr).toContain('ECONNREFUSED');
    expect(away.stderr + refused.stderr).not.toMatch(/pass-word|wrong-word/);
    expect(usage).toMatchObject({ code: 64, stdout: '' });
  });

  it('prints the text of a server in one line', () => {
    const found = 'ERROR: no\nok    redis-rights  every command\r\n';
    const finding: Finding = { check: 'a-b', level: 'fail', found, means: 'a\n  b', advice: 'c\n\nd' };
    expect(doctorLines([finding], painter({ isTTY: false }))).toEqual([
      'fail  a-b  ERROR: no ok    redis-rights  every command',
      '        a b',
      '        c d',
    ]);
  });

  it('colours the level on a terminal only', () => {
    const findings: Finding[] = [
      { check: 'a-b', level: 'fail', found: 'found', means: 'means', advice: null },
      { check: 'wake-up', level: 'ok', found: 'fine', means: 'means', advice: null },
    ];
    expect(doctorLines(findings, painter({ isTTY: false }))).toEqual([
      'fail  a-b      found',
      '        means',
      'ok    wake-up  fine',
    ]);
    expect(doctorLines(findings, painter({ isTTY: true }, {}))[0]).toBe(
      '\u001b[31mfail\u001b[0m  a-b      found',
    );
  });
});
