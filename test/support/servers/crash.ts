import { onTestFinished } from 'vitest';
import type { Server } from '../../../src/torture/servers/server.ts';

/** Kills the process of the server. It is restarted for the next test in every case. */
export async function crash(server: Server): Promise<{ back(): Promise<void> }> {
  let started: Promise<void> | null = null;
  const back = (): Promise<void> => {
    started ??= server.start();
    return started;
  };
  onTestFinished(back, 60_000);
  server.kill('SIGKILL');
  await server.exited();
  return { back };
}
