export type { Acl, ZookeeperClient } from './client.ts';
export type { ZookeeperStoreOptions } from './parts.ts';
export { zookeeperStore } from './zookeeper-store.ts';
