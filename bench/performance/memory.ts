import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { startRedis } from '../../src/torture/servers/redis.ts';
import { peers } from '../redis/contenders.ts';
import type { Memory, MemoryFigures, Named } from './data.ts';
import type { Effort } from './effort.ts';

const run = promisify(execFile);

/** Each contender in a process and on a server of its own. The floor and Holdfast come first. */
export async function memory(effort: Effort, worker: string): Promise<Memory[]> {
  const entries: (Named & MemoryFigures)[] = [];
  for (let number = 0; number < peers.length + 2; number += 1) {
    await using server = await startRedis();
    const counts = [`${effort.memoryHolds}`, `${effort.memoryWaiters}`];
    const args = ['--expose-gc', worker, server.url, `${number}`, ...counts];
    const { stdout } = await run(process.execPath, args, { timeout: 120_000 });
    const found = JSON.parse(stdout) as MemoryFigures & { readonly name: string };
    entries.push({ kind: number === 0 ? 'floor' : number === 1 ? 'holdfast' : 'peer', ...found });
  }
  return [{ store: 'Redis', holds: effort.memoryHolds, waiters: effort.memoryWaiters, entries }];
}
