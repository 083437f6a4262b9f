import type { Connection } from './connection.ts';

/** How often two idle connections are compared. */
const PROBES = 8;
const BACKEND = { text: 'SELECT pg_backend_pid()::text' };

/** The server process that runs the statements of this connection now. */
export async function backendOf(connection: Connection): Promise<string | null> {
  return (await connection.run(BACKEND))[0]?.[0] ?? null;
}

/**
 * A pooler in transaction mode gives two idle clients the same server process, or one client a
 * different one than before when others are busy. A pooler in session mode does neither.
 */
export async function sharesBackends(connection: Connection, other: Connection): Promise<boolean> {
  const own = await backendOf(connection);
  for (let probe = 0; probe < PROBES; probe += 1) {
    if ((await backendOf(other)) === own || (await backendOf(connection)) !== own) return true;
  }
  return false;
}
