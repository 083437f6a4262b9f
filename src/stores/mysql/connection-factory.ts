import { InvalidArgumentError } from '../../errors.ts';
import { firstInstalled } from '../shared/client-library.ts';
import { MYSQL2 } from './client-library.ts';
import type { ConnectionFactory } from './connection.ts';

/** The part of a mysql2 pool that is used: its settings. */
export interface MysqlPool {
  readonly config?: unknown;
  readonly pool?: unknown;
  getConnection: unknown;
}

/** What is copied from the user's pool: address, login, encryption, and what the runtime allows. */
const SETTINGS = [
  ...['host', 'port', 'localAddress', 'socketPath', 'stream', 'ssl', 'compress', 'connectAttributes'],
  ...['user', 'password', 'password2', 'password3', 'passwordSha1', 'authPlugins', 'authSwitchHandler'],
  ...['database', 'insecureAuth', 'enableCleartextPlugin', 'enableKeepAlive', 'keepAliveInitialDelay'],
  // Where code must not be made from text, mysql2 cannot read rows without it.
  'disableEval',
];

/**
 * Our own limits instead of the library's, numbers that JavaScript cannot hold as text, and no stack
 * traces that are made for each statement.
 */
const OURS = {
  charset: 'utf8mb4',
  connectTimeout: 0,
  supportBigNumbers: true,
  bigNumberStrings: true,
  rowsAsArray: true,
  trace: false,
};

/** Makes connections like those of this pool. Throws `InvalidArgumentError` for other values. */
export function connectionFactoryOf(pool: MysqlPool): ConnectionFactory {
  // The pool of `mysql2/promise` has the other one inside.
  const inner = (pool as MysqlPool | null)?.pool ?? pool;
  const config = (inner as { config?: { connectionConfig?: unknown } } | null)?.config?.connectionConfig;
  if (config === null || typeof config !== 'object')
    throw new InvalidArgumentError('pool', 'must be a pool of mysql2 or of mysql2/promise');
  return connectionFactoryFrom(config as Record<string, unknown>);
}

/** Makes connections with these settings of mysql2. */
export function connectionFactoryFrom(config: Readonly<Record<string, unknown>>): ConnectionFactory {
  const given = SETTINGS.map((name) => [name, config[name]]).filter(([, value]) => value !== undefined);
  const settings = { ...Object.fromEntries(given), ...OURS };
  return async () => (await load()).createConnection(settings);
}

export const load = async () => (await firstInstalled('MySQL', [MYSQL2])).library;
