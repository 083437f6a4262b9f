import type { Server } from '../../../src/torture/servers/server.ts';

/** Bundlers and compilers in the process of a test block its event loop for seconds. */
export const CONNECT_MS = 30_000;

export interface SqlServerHelp {
  /** Resolves to the URL of a new, empty database. */
  createDatabase(): Promise<string>;
  /** Restarts the server without a clean shutdown. */
  restartImmediately(): Promise<void>;
}

/** `run`: runs a statement on the server. `killSignal`: ends the server without a clean shutdown. */
export function sqlServerHelp(
  server: Server,
  run: (statement: string) => Promise<unknown>,
  killSignal: NodeJS.Signals,
): SqlServerHelp {
  let databases = 0;
  return {
    async createDatabase() {
      databases += 1;
      const name = `test_${process.pid}_${databases}`;
      await run(`CREATE DATABASE ${name}`);
      const url = new URL(server.url);
      url.pathname = `/${name}`;
      return url.href;
    },
    async restartImmediately() {
      server.kill(killSignal);
      await server.exited();
      await server.start();
    },
  };
}
