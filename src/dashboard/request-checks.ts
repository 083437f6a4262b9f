import { isIP } from 'node:net';
import { RefusedError } from './answers.ts';

/**
 * Checks against requests that another site makes a browser send. A page of an attacker can reach a
 * dashboard on a private address by rebinding its own host name to that address (the `Host` header
 * then has the attacker's name), and can send cross-site requests with the cookies of the victim.
 */

/** Where a request arrived. */
export interface Arrival {
  /** The `Host` header, else the host of the URL. */
  readonly host: string;
  /** The request came over a loopback address. */
  readonly isLoopback: boolean;
}

export function arrivalOf(request: Request, localAddress: string | undefined): Arrival {
  const url = new URL(request.url);
  return {
    host: (request.headers.get('host') ?? url.host).toLowerCase(),
    isLoopback: isLoopbackHost(url.hostname) || isLoopbackHost(localAddress ?? ''),
  };
}

/**
 * With `hosts`, the host must be one of them; an entry without a port stands for every port.
 * Without, a server on a loopback address answers to loopback names and addresses only: no other
 * name leads there but by rebinding, or by a proxy that passes its own name on.
 */
export function checkHost({ host, isLoopback }: Arrival, hosts: readonly string[] | null): void {
  const name = hostName(host);
  const isAllowed =
    hosts === null
      ? !isLoopback || isLoopbackHost(name) || isIP(name.replace(/^\[|\]$/g, '')) !== 0
      : hosts.includes(host) || hosts.includes(name);
  if (!isAllowed)
    throw new RefusedError(403, 'host', 'This host name is not allowed. Add it to the option hosts.');
}

/** Of calls of the API. A navigation to the page itself may come from anywhere. */
export function checkSite(request: Request, { host }: Arrival): void {
  const site = request.headers.get('sec-fetch-site');
  // Browsers set it, and scripts cannot. It is right also where a proxy has changed the host.
  if (site !== null) {
    if (site === 'same-origin' || (site === 'none' && request.method === 'GET')) return;
    throw new RefusedError(403, 'origin', 'Requests from other sites are refused.');
  }
  const origin = request.headers.get('origin');
  // Not a browser, or a GET of an old one, whose answer another site cannot read.
  if (origin === null) return;
  if (hostOfOrigin(origin) !== host)
    throw new RefusedError(403, 'origin', 'Requests from other sites are refused.');
}

function hostOfOrigin(origin: string): string | null {
  try {
    return new URL(origin).host;
  } catch {
    return null;
  }
}

/** Without the port. An IPv6 address keeps its brackets. */
function hostName(host: string): string {
  return host.replace(/:\d+$/, '');
}

export function isLoopbackHost(name: string): boolean {
  const plain = name.replace(/^\[|\]$/g, '').replace(/^::ffff:/, '');
  return (
    plain === 'localhost' || plain.endsWith('.localhost') || plain === '::1' || /^127(\.\d+){3}$/.test(plain)
  );
}
