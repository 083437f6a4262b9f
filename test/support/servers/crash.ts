import { onTestFinished } from 'vitest';
import type { Server } from './server.ts';

/** Ends the server's process at once. It is there again for the next test, whatever becomes of this one. */
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
