import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { describe } from 'vitest';
import { describeConformance } from '../support/conformance.ts';
import { LIBRARIES } from '../support/redis-clients.ts';
import { redisSubject } from '../support/redis-subject.ts';
import type { Server } from '../support/servers/server.ts';

/** The line of the documentation itself, so that the two cannot part. */
const page = readFileSync(fileURLToPath(new URL('../../docs/stores/redis.md', import.meta.url)), 'utf8');
const line = /^ACL SETUSER .*$/m.exec(page)?.[0] ?? 'ACL SETUSER is missing from docs/stores/redis.md';

async function leastPrivileged({ url }: Server): Promise<string> {
  const admin = new Redis(url);
  const [command = '', ...args] = line.split(/\s+/);
  await admin.call(command, ...args);
  admin.disconnect();
  const [, , user, ...rules] = line.split(/\s+/);
  const password = rules.find((rule) => rule.startsWith('>'))?.slice(1);
  return url.replace('redis://', `redis://${user}:${password}@`);
}

describe.each(LIBRARIES)('as the documented least-privilege user', (library) => {
  describeConformance(`Redis under ${library}`, redisSubject(library, leastPrivileged));
});
