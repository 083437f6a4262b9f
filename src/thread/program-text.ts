import { UnsupportedError } from '../errors.ts';

/**
 * Put before this module by the build, and defined for the tests (`scripts/thread-program.mjs`).
 */
declare const HOLDFAST_THREAD_PROGRAM: string | undefined;

/**
 * The program of the renewal thread (`program.ts`) with everything that it imports but the client
 * libraries, as one text. A bundle has no file that a thread could be started from.
 */
export function threadProgram(): string {
  if (typeof HOLDFAST_THREAD_PROGRAM === 'string') return HOLDFAST_THREAD_PROGRAM;
  throw new UnsupportedError("renewal: 'thread' needs the built package, not its sources");
}
