import { describe, expect, it } from 'vitest';
import { InvalidArgumentError } from '../../src/errors.ts';
import { zookeeperStore } from '../../src/stores/zookeeper/index.ts';
import { parseZookeeperUrl } from '../../src/stores/zookeeper/url.ts';

describe('a zookeeper:// URL', () => {
  it('names hosts, a chroot, a root, a user and a session time-out', () => {
    expect(parseZookeeperUrl('zookeeper://a,b:2182/team/x?sessionMs=5000')).toEqual({
      hosts: 'a:2181,b:2182',
      root: '/team/x/locks',
      auth: null,
      sessionMs: 5_000,
    });
    expect(parseZookeeperUrl('zookeeper://ann:s%3Acret@a')).toMatchObject({
      auth: { username: 'ann', password: 's:cret' },
      root: '/locks',
      sessionMs: 30_000,
    });
    const rootOf = (url: string): string => parseZookeeperUrl(url).root;
    expect(rootOf('zookeeper://a?root=/app/mutexes')).toBe('/app/mutexes');
    expect(rootOf('zookeeper://a/team?root=%2Fjobs')).toBe('/team/jobs');
    expect(rootOf('zookeeper://a/team/?root=/')).toBe('/team');
    expect(rootOf('zookeeper://a?root=/')).toBe('/');
  });

  it.each([
    'zookeeper://',
    'zookeeper://a?sessionMs=soon',
    'zookeeper://a?x=1',
    'zookeeper://a?root=',
    'zookeeper://a?root=locks',
    'zookeeper://a/team?root=/locks/',
    'zookeeper://a/%',
    'zookeeper://[::1]:2181',
    'zookeeper://a:b:c',
  ])('is refused when it is wrong, and the error does not repeat it: %s', (url) => {
    const parse = (): unknown => parseZookeeperUrl(url.replace('://', '://ann:secret@'));
    expect(parse).toThrow(InvalidArgumentError);
    expect(parse).not.toThrow(/secret/);
  });

  it('like the option root, must name the path of a node as root', () => {
    for (const root of ['locks', '/locks/', '//', ''])
      expect(() => zookeeperStore(() => ({}) as never, { root })).toThrow(InvalidArgumentError);
  });
});
