import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createDashboard, type Dashboard, type DashboardOptions } from '../../../src/dashboard/index.ts';
import { createLocks, type Locks, type LocksOptions, memoryStore, type Store } from '../../../src/index.ts';

export interface Served extends AsyncDisposable {
  readonly locks: Locks;
  readonly dashboard: Dashboard;
  readonly server: Server;
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** `host:port` */
  readonly host: string;
  get(path: string, headers?: Record<string, string>): Promise<Response>;
  /** The JSON of an answer with status 200. */
  read<T>(path: string): Promise<T>;
  post(path: string, body: unknown, headers?: Record<string, string>): Promise<Response>;
}

interface ServeOptions extends Partial<DashboardOptions> {
  readonly store?: Store;
  /** Instead of a store. */
  readonly locks?: Locks;
  readonly locksOptions?: LocksOptions;
}

/** A dashboard on a real server of its own, on a free loopback port. */
export async function serve({ store, locksOptions, ...options }: ServeOptions = {}): Promise<Served> {
  const { locks = createLocks(store ?? memoryStore(), locksOptions), ...rest } = options;
  const dashboard = createDashboard(locks, { access: () => 'operate', ...rest });
  const server = createServer(dashboard.listener);
  const { url, host } = await listening(server);
  const get = (path: string, headers = {}): Promise<Response> => fetch(`${url}${path}`, { headers });
  return {
    ...{ locks, dashboard, server, url, host, get },
    async read<T>(path: string): Promise<T> {
      const answer = await get(path);
      if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
      return (await answer.json()) as T;
    },
    post: (path, body, headers = {}) =>
      fetch(`${url}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/json', ...headers },
        body: typeof body === 'string' ? body : JSON.stringify(body),
      }),
    async [Symbol.asyncDispose]() {
      await dashboard.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await locks.close({ drainMs: 0 });
    },
  };
}

/** Starts to listen on a free loopback port. */
export async function listening(server: Server): Promise<{ url: string; host: string; port: number }> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, host: `127.0.0.1:${port}`, port };
}
