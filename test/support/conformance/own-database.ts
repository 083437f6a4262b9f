import { afterAll, beforeAll } from 'vitest';

interface DatabaseServer {
  createDatabase(): Promise<string>;
  stop(): Promise<void>;
}

/** Prepares a new database of a server. Resolves to the URL to connect with. */
export type Prepare<Server> = (server: Server, url: string) => Promise<string>;

/** A database for the tests of a file. Gives its URL, from `beforeAll` on. */
export function ownDatabase<Server extends DatabaseServer>(
  start: () => Promise<Server>,
  prepare: Prepare<Server> = async (_server, url) => url,
): () => string {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    server = await start();
    url = await prepare(server, await server.createDatabase());
  });
  afterAll(async () => {
    await server.stop();
  });
  return () => url;
}
