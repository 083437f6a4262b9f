import { InvalidArgumentError } from '../errors.ts';

/** Reads URLs that name several hosts, which `URL` cannot. `form`: what one must look like, for the message, which repeats nothing that may hold a password. */
export interface HostList {
  readonly form: string;
  readonly port: number;
}

/** `a,b:1,c` with the usual port where none is said. */
export function parseHosts(list: string, { form, port }: HostList): string[] {
  return list.split(',').map((host) => {
    if (!/^(?:\[[0-9a-f:.]+\]|[^:[\]]+)(?::\d{1,5})?$/i.test(host))
      throw new InvalidArgumentError('url', `must look like ${form}`);
    return /:\d+$/.test(host.replace(/^\[.*\]/, '')) ? host : `${host}:${port}`;
  });
}

/** `user:password`, each of them escaped as URLs do. */
export function parseUser(user: string): { username: string; password: string } {
  const [username = '', ...rest] = user.split(':');
  try {
    return { username: decodeURIComponent(username), password: decodeURIComponent(rest.join(':')) };
  } catch {
    throw new InvalidArgumentError('url', 'has a percent sign that escapes nothing; write %25 for one');
  }
}
