import type { BackendKind } from '../../../src/torture/backends/backend.ts';

/**
 * Stores whose leases are in whole seconds, or end with a session, get a longer one. etcd makes a
 * lease of 3 s for a TTL of 2.7 s, and one of 4 s for a TTL of 3 s.
 */
const TTL_MS: Partial<Record<BackendKind, number>> = { etcd: 2_700, zookeeper: 3_000, advisory: 3_000 };

/** The TTL of holds in the campaigns. */
export const ttlMsOf = (kind: BackendKind): number => TTL_MS[kind] ?? 2_000;

/** A session lasts as long as a hold, so that the locks of a killed process are free in time. */
export const urlWithTtl = (kind: BackendKind, url: string, ttlMs: number): string =>
  kind === 'zookeeper' ? `${url}?sessionMs=${ttlMs}` : url;
