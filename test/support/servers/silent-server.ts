import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';

export interface SilentServer extends AsyncDisposable {
  /** `host:port` */
  readonly host: string;
  /** Its open connections. */
  readonly sockets: ReadonlySet<Socket>;
}

/** Accepts connections and never answers, as a stopped process does. */
export async function startSilentServer(): Promise<SilentServer> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    // Without a reader the end of a connection would not be seen.
    socket.resume();
    socket.on('close', () => sockets.delete(socket));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    host: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}
