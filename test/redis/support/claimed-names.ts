import type { Redis } from 'ioredis';
import { onTestFinished } from 'vitest';
import { claimScript } from '../../../src/generated/redis-scripts.ts';
import { voteScript } from '../../../src/generated/redlock-scripts.ts';

/** The plain keys of all claims that the server executes from now on. */
export async function claimedNames(admin: Redis): Promise<string[]> {
  const monitor = await admin.monitor();
  onTestFinished(() => monitor.disconnect());
  const names: string[] = [];
  monitor.on('monitor', (_time: string, [, sha, , , name = '']: string[]) => {
    if (sha === claimScript.sha || sha === voteScript.sha) names.push(name);
  });
  return names;
}
