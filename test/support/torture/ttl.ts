import type { BackendKind } from '../../../src/torture/backends/backend.ts';

/** Stores whose holds end with a session, or need a leader, get a longer one. */
const TTL_MS: Partial<Record<BackendKind, number>> = { etcd: 3_000, zookeeper: 3_000, advisory: 3_000 };

/** The TTL of holds in the campaigns. */
export const ttlMsOf = (kind: BackendKind): number => TTL_MS[kind] ?? 2_000;

/** A session lasts as long as a hold, so that the locks of a killed process are free in time. */
export const urlWithTtl = (kind: BackendKind, url: string, ttlMs: number): string =>
  kind === 'zookeeper' ? `${url}?sessionMs=${ttlMs}` : url;
