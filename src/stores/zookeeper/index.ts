export type { Acl, Watcher, ZookeeperClient } from './client.ts';
export type { ZookeeperStoreOptions } from './parts.ts';
export { zookeeperStore } from './zookeeper-store.ts';
