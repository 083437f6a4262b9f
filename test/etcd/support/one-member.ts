import type { Etcd3 } from 'etcd3';
import type { EtcdClusterOptions } from '../../../src/torture/servers/etcd.ts';
import { cleanups } from '../../support/hooks/cleanups.ts';
import { type EtcdCluster, startEtcdCluster } from '../../support/servers/etcd.ts';

/** A cluster of one member for all tests of a file. */
export interface OneMember {
  readonly cluster: EtcdCluster;
  /** A client to look at the cluster with, behind the store's back. */
  readonly direct: Etcd3;
  /** Registers what is undone after the file's tests, before the cluster stops. */
  readonly atTheEnd: ReturnType<typeof cleanups>;
}

export async function startOneMember(options: Omit<EtcdClusterOptions, 'members'> = {}): Promise<OneMember> {
  const atTheEnd = cleanups();
  const cluster = await startEtcdCluster({ ...options, members: 1 });
  atTheEnd(() => cluster.stop());
  return { cluster, direct: cluster.client(), atTheEnd };
}
