import { startFaultProxy } from '../servers/fault-proxy.ts';
import type { Server } from '../servers/server.ts';
import type { Parts } from './backend.ts';

/** A server, and the port that clients of the store connect to. */
interface Node {
  readonly port: number;
  readonly server: Server;
}

/** The parts of a store whose every route has a proxy of its own before each node. */
export function proxiedParts(nodes: readonly Node[], urlOf: (addresses: string) => string): Parts {
  const urlFor = (ends: ReadonlyArray<{ readonly port: number }>): string =>
    urlOf(ends.map(({ port }) => `127.0.0.1:${port}`).join(','));
  return {
    url: urlFor(nodes),
    servers: nodes.map(({ server }) => server),
    makeRoute: async () => {
      const proxies = await Promise.all(nodes.map(({ port }) => startFaultProxy(port)));
      return { url: urlFor(proxies), proxies };
    },
  };
}

/** Of a server that has one port, for its clients. */
export function nodeOf(server: Server): Node {
  return { port: server.port, server };
}
