import type { Clock } from '../../clock.ts';
import { UnsupportedError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import type { Acl, RawClient } from './client.ts';
import { parseZookeeperUrl } from './url.ts';
import { zookeeperStore } from './zookeeper-store.ts';

interface Library {
  createClient(address: string, options: object): RawClient;
  readonly ACL: { readonly CREATOR_ALL_ACL: Acl };
}

/** How long the client waits at most before it goes through the members again. */
const SPIN_MS = 250;

/**
 * A store in the ensemble of a `zookeeper://` URL, through clients of its own, which `close` ends: `zookeeper://a,b,c`, `zookeeper://user:password@a:2181,b:2181/team?sessionMs=10000`. Locks stand under
 * `<chroot>/locks`, or with `?root=/elsewhere` under `<chroot>/elsewhere`. With a user, only that user may do anything with the nodes that it makes. Rejects with `UnsupportedError` when the `node-zookeeper-client` package is not installed.
 */
export async function openZookeeper(
  url: string,
  options: { clock?: Clock | undefined } = {},
): Promise<Store> {
  const { hosts, root, auth, sessionMs } = parseZookeeperUrl(url);
  const { createClient, ACL } = await load();
  const make = (): RawClient => {
    const client = createClient(hosts, { sessionTimeout: sessionMs, spinDelay: SPIN_MS, retries: 0 });
    if (auth !== null) client.addAuthInfo('digest', Buffer.from(`${auth.username}:${auth.password}`));
    return client;
  };
  return zookeeperStore(make, {
    root,
    acl: auth === null ? undefined : ACL.CREATOR_ALL_ACL,
    clock: options.clock,
  });
}

async function load(): Promise<Library> {
  try {
    const library = (await import('node-zookeeper-client')) as unknown as Library & {
      readonly default?: Library;
    };
    return library.createClient === undefined && library.default !== undefined ? library.default : library;
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new UnsupportedError('ZooKeeper needs a client library: npm install node-zookeeper-client');
  }
}
