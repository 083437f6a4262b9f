import type { Clock } from '../../clock.ts';
import { InvalidArgumentError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';
import { openClient } from '../redis/open.ts';
import { hostsIn } from '../redis/url.ts';
import { quorumOf } from './redlock.ts';

const FORM = 'redlock://[user:password@]host[:port],…[/database][?prefix=TEXT]';

/** A store over the independent Redis servers of a `redlock://a,b,c,d,e` URL, through clients of its own, which `close` ends. */
export async function openRedlock(url: string, options: { clock?: Clock | undefined } = {}): Promise<Store> {
  const { list, username, password, path, prefix } = hostsIn(url, FORM);
  if (!/^\d*$/.test(path)) throw new InvalidArgumentError('url', `must look like ${FORM}`);
  const login = username === '' && password === '' ? '' : `${encode(username)}:${encode(password)}@`;
  const clients = await Promise.all(list.map((host) => openClient(`redis://${login}${host}/${path}`)));
  return quorumOf(clients, list, { prefix, clock: options.clock }, true);
}

const encode = encodeURIComponent;
