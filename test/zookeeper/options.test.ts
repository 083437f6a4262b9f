import zookeeper from 'node-zookeeper-client';
import { describe, expect, it } from 'vitest';
import { createLocks } from '../../src/index.ts';
import { type ZookeeperStoreOptions, zookeeperStore } from '../../src/stores/zookeeper/index.ts';

const connect = () => zookeeper.createClient('127.0.0.1:1');

describe('the options of the ZooKeeper store', () => {
  it.each([
    [{ Root: '/jobs' }, 'did you mean root?'],
    [{ sessionMs: 5_000 }, 'known: root, acl, removeEmpty, queueMax, clock'],
  ])('an unknown one is refused: %o', (options, hint) => {
    const open = () => zookeeperStore(connect, options as ZookeeperStoreOptions);
    expect(open).toThrow(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
    expect(open).toThrow(hint);
  });
});

it('a finished run cannot be remembered: claims end with their session', async () => {
  const locks = createLocks(zookeeperStore(connect));
  await expect(locks.once('job', () => {})).rejects.toMatchObject({ code: 'UNSUPPORTED' });
  await locks.close();
});
