import { type ClientLibrary, exportsWith, importInstalled } from '../shared/client-library.ts';
import type { Acl, RawClient } from './client.ts';

export interface ZookeeperLibrary {
  createClient(address: string, options: object): RawClient;
  readonly ACL: { readonly CREATOR_ALL_ACL: Acl };
}

/** How it is loaded is explained in `../redis/client-library.ts`. */
export const NODE_ZOOKEEPER_CLIENT: ClientLibrary<ZookeeperLibrary> = {
  name: 'node-zookeeper-client',
  async load() {
    try {
      return exportsWith<ZookeeperLibrary>('createClient', require('node-zookeeper-client'));
    } catch {
      return exportsWith<ZookeeperLibrary>('createClient', await importInstalled('node-zookeeper-client'));
    }
  },
};
