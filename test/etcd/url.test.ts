import { describe, expect, it } from 'vitest';
import { openEtcd } from '../../src/stores/etcd/open.ts';
import { parseEtcdUrl } from '../../src/stores/etcd/url.ts';

describe('an etcd URL', () => {
  it('names one member or several, with or without a port', () => {
    expect(parseEtcdUrl('etcd://a').hosts).toEqual(['http://a:2379']);
    expect(parseEtcdUrl('etcd://a:1,b,[::1],[::1]:2/').hosts).toEqual([
      'http://a:1',
      'http://b:2379',
      'http://[::1]:2379',
      'http://[::1]:2',
    ]);
  });

  it('carries a user and a password, escaped where needed', () => {
    expect(parseEtcdUrl('etcd://me:p%40ss%2F:x@a').auth).toEqual({ username: 'me', password: 'p@ss/:x' });
    expect(parseEtcdUrl('etcd://a').auth).toBeNull();
  });

  it('turns TLS on by itself where it names certificates', () => {
    expect(parseEtcdUrl('etcd://a,b?tls=true').hosts).toEqual(['https://a:2379', 'https://b:2379']);
    expect(parseEtcdUrl('etcd://a?tls=false').hosts).toEqual(['http://a:2379']);
    expect(parseEtcdUrl('etcd://a?ca=ca.pem&cert=me.pem&key=me.key')).toMatchObject({
      hosts: ['https://a:2379'],
      ca: 'ca.pem',
      cert: 'me.pem',
      key: 'me.key',
    });
    expect(parseEtcdUrl('etcd://a?prefix=').prefix).toBe('');
  });

  it.each([
    'etcd://',
    'etcd:a',
    'etcd://a,,b',
    'etcd://a b:x',
    'etcd://a:port',
    'etcd://a?tsl=true',
    'etcd://a?tls=maybe',
    'etcd://a?cert=me.pem',
    'etcd://%zz:secret@a',
    'etcd://me:secret@a/path',
  ])('is refused when it is wrong, and the error does not repeat it: %s', (url) => {
    expect(() => parseEtcdUrl(url)).toThrowError(expect.objectContaining({ code: 'INVALID_ARGUMENT' }));
    try {
      parseEtcdUrl(url);
    } catch (error) {
      expect(String(error)).not.toContain('secret');
    }
  });

  it('is refused when it names a file that cannot be read', async () => {
    await expect(openEtcd('etcd://a?ca=no-such-file.pem')).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
    });
  });
});
