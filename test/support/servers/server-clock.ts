import { afterAll, expect } from 'vitest';
import { makeClockShim } from '../../../src/torture/servers/clock-shim.ts';

export interface ServerClock {
  /** For the server. */
  readonly env: NodeJS.ProcessEnv;
  /** By how many seconds the server's clock differs from now on. */
  set(seconds: number): Promise<void>;
}

/** The wall clock of a server that the tests of a file set. `read`: what the server shows, in seconds. */
export function serverClock(read: () => Promise<number>): ServerClock {
  const shim = makeClockShim();
  afterAll(() => shim.remove());
  return {
    env: shim.env,
    async set(seconds) {
      shim.set(seconds);
      // Otherwise a test could pass without a jump.
      expect(Math.abs((await read()) - Date.now() / 1000 - seconds)).toBeLessThan(60);
    },
  };
}
