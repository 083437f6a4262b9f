import type { Clock } from '../../clock.ts';
import type { Store } from '../../store/store.ts';
import { firstInstalled } from '../shared/client-library.ts';
import type { RawClient } from './client.ts';
import { NODE_ZOOKEEPER_CLIENT } from './client-library.ts';
import { parseZookeeperUrl } from './url.ts';
import { zookeeperStore } from './zookeeper-store.ts';

/** The longest pause of the client before it tries to connect again. */
const SPIN_MS = 250;

/**
 * Opens a store in the ensemble of a `zookeeper://` URL, such as `zookeeper://a,b,c` or
 * `zookeeper://user:password@a:2181,b:2181/team?sessionMs=10000`. The store has clients of its own,
 * which `close` closes. Locks are under `<chroot>/locks`, or with `?root=/elsewhere` under
 * `<chroot>/elsewhere`. With a user, only that user may access the nodes that the store creates.
 * Rejects with `UnsupportedError` when the `node-zookeeper-client` package is not installed.
 */
export async function openZookeeper(
  url: string,
  options: { clock?: Clock | undefined } = {},
): Promise<Store> {
  const { hosts, root, auth, sessionMs } = parseZookeeperUrl(url);
  const { library } = await firstInstalled('ZooKeeper', [NODE_ZOOKEEPER_CLIENT]);
  const { createClient, ACL } = library;
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
