import pg from 'pg';
import { afterEach } from 'vitest';

interface Connections {
  connect(): Promise<pg.Client>;
  /** A connection inside a transaction. */
  begin(level?: string): Promise<pg.Client>;
}

/** Connections of the tests of a file, which end with their test. `url`: of the database. */
export function connectionsTo(url: () => string): Connections {
  const clients: pg.Client[] = [];
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.end()));
  });
  const connect = async (): Promise<pg.Client> => {
    const client = new pg.Client(url());
    await client.connect();
    clients.push(client);
    return client;
  };
  return {
    connect,
    async begin(level = '') {
      const client = await connect();
      await client.query(`BEGIN ${level}`);
      return client;
    },
  };
}
