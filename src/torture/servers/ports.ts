import { type AddressInfo, connect, createServer } from 'node:net';

/** Loopback ports that were free a moment ago, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  const ports: number[] = [];
  for (const server of servers) {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(0, '127.0.0.1', resolve);
    });
    ports.push((server.address() as AddressInfo).port);
  }
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
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
