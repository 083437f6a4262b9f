import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Redis } from 'ioredis';
import { describe } from 'vitest';
import type { Server } from '../../src/torture/servers/server.ts';
import { LIBRARIES } from '../support/clients/redis-clients.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { redisSubject } from '../support/conformance/redis-subject.ts';

/** Read from the documentation, so that the two cannot differ. */
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
