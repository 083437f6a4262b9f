import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isLoopbackHost } from '../dashboard/request-checks.ts';
import { openLocks } from '../open.ts';
import { DashboardSessions } from './dashboard-sessions.ts';
import { EXIT, UsageError } from './exit-code.ts';
import { giveUpAfter, rejectAfter } from './time-limit.ts';

export interface DashboardOptions {
  readonly store?: string;
  readonly host: string;
  readonly port: string;
  readonly readOnly?: boolean;
  readonly insecure?: boolean;
  readonly json?: boolean;
}

/**
 * The environment variable with a token for programs, such as a Prometheus that reads `/metrics`.
 */
const TOKEN_VARIABLE = 'HOLDFAST_DASHBOARD_TOKEN';
const TOKEN_LENGTH_MIN = 16;
const OPEN_MS = 6_000;
const CLOSE_MS = 1_000;
/** A client that is slower with its request is disconnected. */
const HEADERS_MS = 10_000;
const REQUEST_MS = 20_000;
const CONNECTIONS_MAX = 2_500;

/** Serves the dashboard until a signal ends it. */
export async function dashboard(url: string, options: DashboardOptions): Promise<number> {
  const { host, readOnly = false } = options;
  const port = checkPort(options.port);
  const isLocal = isLoopbackHost(host);
  if (!isLocal && options.insecure !== true)
    throw new UsageError(
      `--host ${host} would send the token and the session over the network unencrypted; ` +
        'keep a loopback address and put TLS in front, or add --insecure',
    );
  const sessions = new DashboardSessions(readOnly ? 'read' : 'operate', programToken(process.env));
  const locks = await rejectAfter(OPEN_MS, openLocks(url));
  try {
    // Loaded here, since no other command needs it.
    const { createDashboard } = await import('../dashboard/dashboard.ts');
    const server = createServer();
    const at = await listen(server, port, host);
    const names = ['127.0.0.1', 'localhost', '[::1]', host, new URL(at.url).hostname];
    const hosts = isLocal ? names.map((name) => `${name}:${at.port}`) : undefined;
    const served = createDashboard(locks, { access: sessions.access(at.port), hosts });
    server.on('request', sessions.listener(at.port, served.listener));
    const show = (): void => printUrl(`${at.url}/?token=${sessions.newToken()}`, options);
    show();
    await untilSignal(show);
    server.closeAllConnections();
    server.close();
    await served.close();
  } finally {
    await giveUpAfter(CLOSE_MS, locks.close({ drainMs: 0 }));
  }
  return EXIT.ok;
}

function printUrl(url: string, { json, readOnly }: DashboardOptions): void {
  const text = json === true ? JSON.stringify({ url }) : url;
  process.stdout.write(`${text}\n`);
  if (json === true || !process.stderr.isTTY) return;
  const may = readOnly === true ? 'look' : 'look and evict';
  process.stderr.write(`Opens once, and lets you ${may}. Enter: a new URL. Ctrl-C: end.\n`);
}

function checkPort(text: string): number {
  if (!/^\d{1,5}$/.test(text) || Number(text) > 65_535)
    throw new UsageError(`--port must be a number from 0 to 65535; got "${text}"`);
  return Number(text);
}

function programToken(env: NodeJS.ProcessEnv): string | null {
  const token = env[TOKEN_VARIABLE] ?? '';
  if (token === '') return null;
  if (token.length < TOKEN_LENGTH_MIN)
    throw new UsageError(`${TOKEN_VARIABLE} must have at least ${TOKEN_LENGTH_MIN} characters`);
  return token;
}

/** Rejects when it cannot listen. */
export async function listen(
  server: Server,
  port: number,
  host: string,
): Promise<{ port: number; url: string }> {
  server.headersTimeout = HEADERS_MS;
  server.requestTimeout = REQUEST_MS;
  server.maxConnections = CONNECTIONS_MAX;
  await new Promise<void>((resolve, reject) => {
    // Every error, not only the first: a connection could not be accepted, and the server
    // continues.
    server.on('error', (error) => reject(new UsageError(`cannot listen: ${error.message}`)));
    server.listen(port, host.replace(/^\[|\]$/g, ''), resolve);
  });
  const { port: bound, address, family } = server.address() as AddressInfo;
  const shown = host === 'localhost' ? host : family === 'IPv6' ? `[${address}]` : address;
  return { port: bound, url: `http://${shown}:${bound}` };
}

/** Calls back for each line that is entered. Resolves at the first signal to end. */
async function untilSignal(onEnter: () => void): Promise<void> {
  const onInput = (chunk: Buffer): void => {
    if (chunk.includes('\n')) onEnter();
  };
  process.stdin.on('data', onInput);
  // Without a terminal or an input the dashboard continues.
  process.stdin.on('error', () => {});
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => resolve());
  });
  process.stdin.off('data', onInput);
  process.stdin.pause();
}
