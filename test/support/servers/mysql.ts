import mysql from 'mysql2/promise';
import { type MysqlOptions, mysqlRecipe } from '../../../src/torture/servers/mysql.ts';
import { type Server, startOwnServer, startServer } from '../../../src/torture/servers/server.ts';
import { CONNECT_MS, sqlServerHelp } from './sql-server.ts';

/** A MariaDB of our own. */
export interface MysqlServer extends Server {
  /** Runs one statement as root, over a connection of its own. */
  query<Row = Record<string, unknown>>(text: string, values?: readonly unknown[]): Promise<Row[]>;
  /** A new and empty database; resolves to its URL. */
  createDatabase(): Promise<string>;
  /** Kills it, as in a crash, and starts it again. */
  restartImmediately(): Promise<void>;
}

async function runOnce<Row>(url: string, text: string, values: readonly unknown[] = []): Promise<Row[]> {
  const connection = await mysql.createConnection({ uri: url, connectTimeout: CONNECT_MS });
  connection.on('error', () => {});
  try {
    const [rows] = await connection.query(text, [...values]);
    return rows as Row[];
  } finally {
    connection.destroy();
  }
}

/** A MariaDB to share: the one that HOLDFAST_MYSQL_URL names, else our own. */
export async function startSharedMysql(): Promise<MysqlServer> {
  return withHelp(await startServer(mysqlRecipe()));
}

/** A MariaDB of our own, to kill, pause and reconfigure. */
export async function startMysql(options: MysqlOptions = {}): Promise<MysqlServer> {
  return withHelp(await startOwnServer(mysqlRecipe(options, true)));
}

function withHelp(server: Server): MysqlServer {
  const help = {
    ...sqlServerHelp(server, (statement) => runOnce(server.url, statement), 'SIGKILL'),
    query: async <Row>(text: string, values: readonly unknown[] = []) =>
      await runOnce<Row>(server.url, text, values),
  };
  return Object.assign(server, help);
}
