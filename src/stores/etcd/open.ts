import { readFile } from 'node:fs/promises';
import { type Clock, systemClock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { firstInstalled } from '../shared/client-library.ts';
import { ETCD3 } from './client-library.ts';
import { EtcdStore } from './etcd-store.ts';
import { type EtcdUrl, parseEtcdUrl } from './url.ts';

/** The time limit of a login at one member. The client then tries the next member. */
const AUTH_MS = 2_000;

/**
 * Opens a store in the cluster of an `etcd://` URL, such as `etcd://a,b,c` or
 * `etcd://user:password@a:2379,b:2379?ca=ca.pem&cert=me.pem&key=me.key`. The store has a client of
 * its own, which `close` closes. Certificates are always verified. Rejects with `UnsupportedError`
 * when the `etcd3` package is not installed.
 */
export async function openEtcd(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const parsed = parseEtcdUrl(url);
  const clock = options.clock ?? systemClock;
  const { library } = await firstInstalled('etcd', [ETCD3]);
  const client = new library.Etcd3(await clientOptions(parsed, clock));
  return new EtcdStore(client, { clock, prefix: parsed.prefix ?? undefined }, () => client.close());
}

async function clientOptions(url: EtcdUrl, clock: Clock): Promise<object> {
  const callOptions = (): object => ({ deadline: clock.wallMs() + AUTH_MS });
  return {
    hosts: url.hosts,
    credentials: url.ca === null && url.cert === null ? undefined : await readCredentials(url),
    auth: url.auth === null ? undefined : { ...url.auth, callOptions },
    // Detects connections that drop all data. Members refuse pings more often than every five
    // seconds.
    grpcOptions: { 'grpc.keepalive_time_ms': 10_000, 'grpc.keepalive_timeout_ms': 3_000 },
  };
}

async function readCredentials({ ca, cert, key }: EtcdUrl): Promise<object> {
  const read = async (name: string, path: string | null): Promise<Buffer | undefined> => {
    if (path === null) return undefined;
    try {
      return await readFile(path);
    } catch (error) {
      throw new InvalidArgumentError('url', `names a ${name} file that cannot be read: ${String(error)}`);
    }
  };
  const [rootCertificate, certChain, privateKey] = await Promise.all([
    read('ca', ca),
    read('cert', cert),
    read('key', key),
  ]);
  return { rootCertificate, certChain, privateKey };
}
