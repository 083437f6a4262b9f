import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { openClient } from '../redis/open.ts';
import { quorumOf } from './redlock.ts';

/** A store over the independent Redis servers of a `redlock://a,b,c,d,e` URL, through clients of its own, which `close` ends. */
export async function openRedlock(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const parts = /^redlock:\/\/(?:([^@/]*)@)?([^/?#]+)(\/\d+)?\/?$/i.exec(url);
  const hosts = parts?.[2]?.split(',').map((host) => host.trim()) ?? [];
  if (parts === null || hosts.some((host) => host === '') || new Set(hosts).size < hosts.length) {
    throw new InvalidArgumentError('url', 'must be redlock://host:port,host:port,… with every host once');
  }
  const [, login, , database = ''] = parts;
  const before = login === undefined ? 'redis://' : `redis://${login}@`;
  const clients = await Promise.all(hosts.map((host) => openClient(`${before}${host}${database}`)));
  return quorumOf(clients, hosts, { clock: options.clock }, true);
}
