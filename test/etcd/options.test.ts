import { Etcd3 } from 'etcd3';
import { afterAll, describe, expect, it } from 'vitest';
import { type EtcdStoreOptions, etcdStore } from '../../src/stores/etcd/index.ts';

const client = new Etcd3({ hosts: '127.0.0.1:1' });
afterAll(() => client.close());

describe('the options of the etcd store', () => {
  it.each([
    [{ prefx: 'a/' }, 'did you mean prefix?'],
    [{ maxQueue: 5 }, 'known: prefix, queueMax, clock'],
  ])('an unknown one is refused: %o', (options, hint) => {
    const open = () => etcdStore(client, options as EtcdStoreOptions);
    expect(open).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
    expect(open).toThrow(hint);
  });
});
