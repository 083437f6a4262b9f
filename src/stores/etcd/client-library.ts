import { type ClientLibrary, exportsWith, importInstalled } from '../shared/client-library.ts';
import type { EtcdClient } from './client.ts';

export interface OwnClient extends EtcdClient {
  close(): void;
}

export interface EtcdLibrary {
  readonly Etcd3: new (options: object) => OwnClient;
}

/** It reads `.proto` files that stand beside it, so no bundle can contain it. */
export const ETCD3: ClientLibrary<EtcdLibrary> = {
  name: 'etcd3',
  load: async () => exportsWith<EtcdLibrary>('Etcd3', await importInstalled('etcd3')),
};
