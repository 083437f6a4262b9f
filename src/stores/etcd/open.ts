import { readFile } from 'node:fs/promises';
import { type Clock, systemClock } from '../../clock.ts';
import { InvalidArgumentError, UnsupportedError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import type { EtcdClient } from './client.ts';
import { EtcdStore } from './etcd-store.ts';
import { makeParts } from './parts.ts';
import { type EtcdUrl, parseEtcdUrl } from './url.ts';

interface OwnClient extends EtcdClient {
  close(): void;
}

interface Library {
  readonly Etcd3: new (options: object) => OwnClient;
}

/** A password is exchanged with one member after the other; one that does not answer must not stop that. */
const AUTH_MS = 2_000;

/**
 * A store in the cluster of an `etcd://` URL, through a client of its own, which `close` ends: `etcd://a,b,c`, `etcd://user:password@a:2379,b:2379?ca=ca.pem&cert=me.pem&key=me.key`. Certificates are
 * always verified. Rejects with `UnsupportedError` when the `etcd3` package is not installed.
 */
export async function openEtcd(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const parsed = parseEtcdUrl(url);
  const clock = options.clock ?? systemClock;
  const { Etcd3 } = await load();
  const client = new Etcd3(await clientOptions(parsed, clock));
  const parts = makeParts(client, { clock, ...(parsed.prefix === null ? {} : { prefix: parsed.prefix }) });
  return new EtcdStore(parts, () => client.close());
}

async function clientOptions(url: EtcdUrl, clock: Clock): Promise<object> {
  const credentials = url.tls && (url.ca !== null || url.cert !== null) ? await readCredentials(url) : null;
  const callOptions = (): object => ({ deadline: clock.wallMs() + AUTH_MS });
  return {
    hosts: url.hosts,
    ...(credentials === null ? {} : { credentials }),
    ...(url.auth === null ? {} : { auth: { ...url.auth, callOptions } }),
    // Finds links that swallow everything. Members refuse to be asked more often than every five seconds.
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

async function load(): Promise<Library> {
  try {
    const library = (await import('etcd3')) as unknown as Library & { readonly default?: Library };
    return library.Etcd3 === undefined && library.default !== undefined ? library.default : library;
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error;
    throw new UnsupportedError('etcd needs a client library: npm install etcd3');
  }
}
