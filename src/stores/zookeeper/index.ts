export type { Acl, ZookeeperClient } from './client.ts';
export type { ZookeeperStoreOptions } from './zookeeper-store.ts';
export { zookeeperStore } from './zookeeper-store.ts';
