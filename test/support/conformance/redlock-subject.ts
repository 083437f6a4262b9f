import { afterAll, beforeAll } from 'vitest';
import type { Store } from '../../../src/store/store.ts';
import { redlockStore } from '../../../src/stores/redis/index.ts';
import { type Library, openClient } from '../clients/redis-clients.ts';
import { type RedisNodes, startRedisNodes } from '../servers/redis-nodes.ts';

export const redlockTraits = { lifetime: 'lease', ordered: false, counting: false, remembers: true } as const;

/** What the conformance suite needs of Redlock over this many nodes under one client library. */
export function redlockSubject(library: Library, count = 5) {
  const closers: Array<() => void> = [];
  let nodes: RedisNodes;
  beforeAll(async () => {
    nodes = await startRedisNodes(count);
  });
  afterAll(async () => {
    for (const close of closers) close();
    await nodes.stop();
  });
  return {
    traits: redlockTraits,
    evictions: 'renewal' as const,
    // A node has a part of the TTL to answer, half a second at most, and the machine may be busy.
    ttlMs: 600,
    wasTooSlow: (error: unknown): boolean => (error as { code?: unknown } | null)?.code === 'QUORUM',
    open: async (): Promise<Store> => {
      const opened = await Promise.all(nodes.urls.map((url) => openClient(library, url)));
      closers.push(...opened.map(({ close }) => close));
      return redlockStore(opened.map(({ client }) => client));
    },
  };
}
