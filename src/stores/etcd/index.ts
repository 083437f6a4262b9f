export type { EtcdClient } from './client.ts';
export { etcdStore } from './etcd-store.ts';
export type { EtcdStoreOptions } from './parts.ts';
