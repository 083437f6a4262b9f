import { describe, expect, it } from 'vitest';
import { openLocks } from '../../src/index.ts';
import { startBackend } from '../../src/torture/backends/start-backend.ts';
import { exchange } from '../../src/torture/servers/ports.ts';
import { eventually } from '../support/waiting/eventually.ts';

const OPTIONS = { nodes: 1, isDurable: true, hasReplicas: true } as const;

describe.concurrent('a failover of the torture', () => {
  it.each(['cluster', 'sentinel'] as const)(
    'makes the replica the master, and a hold that it had received lives on: %s',
    async (kind) => {
      await using backend = await startBackend(kind, OPTIONS);
      const roles = async (): Promise<string[]> =>
        await Promise.all(
          backend.servers.map(
            async ({ port }) =>
              /\r\n(master|slave)\r\n/.exec(await exchange(port, 'ROLE\r\n', 5_000))?.[1] ?? '',
          ),
        );
      expect(await roles()).toEqual(['master', 'slave']);
      const { url } = await backend.route();
      await using locks = await openLocks(url, { ttlMs: 60_000 });
      const hold = await locks.mutex('kept').acquire();
      await eventually('the replica has the hold', async () => {
        const [first, second] = await Promise.all(
          backend.servers.map(({ port }) => exchange(port, 'DBSIZE\r\n', 5_000)),
        );
        return first === second;
      });
      await backend.failover?.(() => 0);
      expect((await roles())[1]).toBe('master');
      await eventually('the new master renews it', () =>
        hold.extend().then(
          () => true,
          () => false,
        ),
      );
      hold.assertHeld();
      const { holders } = await locks.inspect('kept');
      expect(holders.map(({ id, fence }) => [id, fence])).toEqual([[hold.id, hold.fence]]);
      expect(await hold.release()).toBe(true);
    },
    120_000,
  );
});
