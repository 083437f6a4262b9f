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
    let loaded: unknown;
    try {
      loaded = require('node-zookeeper-client');
    } catch {
      loaded = await importInstalled('node-zookeeper-client');
    }
    return exportsWith<ZookeeperLibrary>('createClient', loaded);
  },
};
