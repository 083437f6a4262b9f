import { afterAll } from 'vitest';

/**
 * Starts what all tests of a file share, and disposes of it after them and after every `afterAll` that
 * the file registers later. To be awaited at the top of the file.
 */
export async function useStage<T extends AsyncDisposable>(starting: Promise<T>): Promise<T> {
  const stage = await starting;
  afterAll(() => stage[Symbol.asyncDispose]());
  return stage;
}
