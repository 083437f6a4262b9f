import { setTimeout as sleep } from 'node:timers/promises';
import type { Etcd3 } from 'etcd3';
import { expect, it } from 'vitest';
import type { Stream, WatchReply } from '../../src/stores/etcd/client.ts';
import { type EtcdClient, etcdStore } from '../../src/stores/etcd/index.ts';
import { request } from '../../src/testing/store-case.ts';
import { eventually } from '../support/waiting/eventually.ts';
import { startOneMember } from './support/one-member.ts';

/**
 * What a hold learns of its eviction over the stream of the watches, which is open only while a call
 * of the process waits.
 */
const { cluster, atTheEnd } = await startOneMember();

interface CreateRequest {
  readonly key: Buffer;
  readonly start_revision: string;
}

/** Records the watches that the server has created, and how many streams were closed. */
function watchesOf(client: Etcd3): {
  client: EtcdClient;
  created: readonly CreateRequest[];
  closed(): number;
} {
  const created: CreateRequest[] = [];
  let closed = 0;
  const { kv, leaseClient, watchClient } = client;
  const watch = async (options?: object): Promise<unknown> => {
    const stream = (await watchClient.watch(options as never)) as unknown as Stream<object, WatchReply>;
    const requested: CreateRequest[] = [];
    const [write, cancel] = [stream.write.bind(stream), stream.cancel.bind(stream)];
    stream.write = (message: { create_request?: CreateRequest }) => {
      if (message.create_request !== undefined) requested.push(message.create_request);
      write(message);
    };
    stream.cancel = () => {
      closed += 1;
      cancel();
    };
    // The answers come in the order of the requests.
    stream.on('data', (reply) => {
      const first = reply.created ? requested.shift() : undefined;
      if (first !== undefined) created.push(first);
    });
    return stream;
  };
  return { client: { kv, leaseClient, watchClient: { watch } }, created, closed: () => closed };
}

it('a hold that had to wait learns of its eviction at once while another call waits', async () => {
  const { client, created, closed } = watchesOf(cluster.client());
  const [a, b] = [etcdStore(client), etcdStore(cluster.client())];
  atTheEnd(() => Promise.all([a.close(), b.close()]));
  const evicted: (string | null)[] = [];
  a.onEvicted?.((id) => evicted.push(id));
  const [first, held] = [request('evicted'), request('evicted', { wait: true })];
  await b.claim(first);
  await a.claim(held, undefined, { wake: () => {} });
  await b.release(first);
  expect(await a.claim(held)).toMatchObject({ granted: true });
  // The stream of the watches is closed meanwhile, and opened again by the next wait.
  await eventually('the stream is closed', () => closed() > 0);
  const before = created.length;
  await b.claim(request('evicted-other'));
  await a.claim(request('evicted-other', { wait: true }), undefined, { wake: () => {} });
  const ofHold = () => created.slice(before).find(({ key }) => key.includes(held.id));
  await eventually('the key of the hold is watched again', () => ofHold() !== undefined);
  // From now on. From the revision of an old claim on, etcd would read the changes of all keys.
  expect(ofHold()?.start_revision).toBe('0');
  await sleep(500);
  expect(evicted).toEqual([]);
  expect(await b.evict(held)).toBe(true);
  await eventually('the eviction is reported', () => evicted.length > 0);
  expect(evicted).toEqual([held.id]);
});
