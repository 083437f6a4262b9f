import { connect, createServer } from 'node:net';

/**
 * Below the ports from which systems choose those of outgoing connections. Otherwise such a
 * connection could take the port of a server while the server restarts.
 */
const PORT_MIN = 10_240;
const PORT_MAX = 32_767;
/** A server that is stopped for a moment keeps its port, so no port is given twice. */
const given = new Set<number>();

/** Loopback ports that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const ports: number[] = [];
  while (ports.length < count) {
    const port = PORT_MIN + Math.floor(Math.random() * (PORT_MAX - PORT_MIN + 1));
    if (given.has(port) || !(await isFree(port))) continue;
    given.add(port);
    ports.push(port);
  }
  return ports;
}

async function isFree(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const server = createServer();
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Sends `request` and resolves to the first bytes of the answer. */
export async function exchange(port: number, request: string | Buffer, timeoutMs = 1_000): Promise<string> {
  return await new Promise<string>((resolve, reject) => {
    const socket = connect(port, '127.0.0.1');
    const end = (settle: () => void): void => {
      socket.destroy();
      settle();
    };
    socket.setTimeout(timeoutMs, () => end(() => reject(new Error(`no answer on port ${port}`))));
    socket.once('error', (error) => end(() => reject(error)));
    socket.once('data', (data) => end(() => resolve(data.toString())));
    socket.once('connect', () => socket.write(request));
  });
}
