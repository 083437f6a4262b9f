import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createDashboard, type DashboardOptions } from '../../../src/dashboard/index.ts';
import type { Locks } from '../../../src/index.ts';

export interface ServedDashboard extends AsyncDisposable {
  /** Of the page. */
  readonly url: string;
  readonly port: number;
}

interface ServeOptions extends DashboardOptions {
  /** Sees every request before the dashboard does. */
  readonly onRequest?: RequestListener;
}

/** A dashboard on a free loopback port. */
export async function serveDashboard(
  locks: Locks,
  { onRequest, ...options }: ServeOptions = { access: () => 'operate' },
  port = 0,
): Promise<ServedDashboard> {
  const dashboard = createDashboard(locks, options);
  const server = createServer(dashboard.listener);
  if (onRequest !== undefined) server.prependListener('request', onRequest);
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const address = server.address() as AddressInfo;
  return {
    port: address.port,
    url: `http://127.0.0.1:${address.port}${options.basePath ?? ''}/`,
    [Symbol.asyncDispose]: async () => {
      await dashboard.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
