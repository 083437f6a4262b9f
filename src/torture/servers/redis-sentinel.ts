import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { exchange } from './ports.ts';
import type { Recipe } from './server.ts';

/** The name of the master for the sentinels. */
export const MASTER = 'holdfast';

/** After how long a silent master is replaced. Long, so that a busy machine causes no failover. */
const DOWN_MS = 60_000;

/** A sentinel that watches the master on this port. */
export function sentinelRecipe(masterPort: number): Recipe {
  const config = (dir: string): string => join(dir, 'sentinel.conf');
  return {
    title: 'Redis Sentinel',
    binary: 'redis-server',
    packages: ['redis-server'],
    urlFrom: 'HOLDFAST_SENTINEL_URL',
    prepare({ dir, port }) {
      const lines = [
        `port ${port}`,
        'bind 127.0.0.1',
        `sentinel monitor ${MASTER} 127.0.0.1 ${masterPort} 2`,
        `sentinel down-after-milliseconds ${MASTER} ${DOWN_MS}`,
        `sentinel failover-timeout ${MASTER} 3000`,
      ];
      writeFileSync(config(dir), `${lines.join('\n')}\n`);
    },
    args: ({ dir }) => [config(dir), '--sentinel'],
    ready: async ({ port }) => {
      const answer = await exchange(port, 'PING\r\n');
      if (!answer.startsWith('+PONG')) throw new Error(answer.trim());
    },
    url: ({ port }) => `redis://127.0.0.1:${port}`,
  };
}
