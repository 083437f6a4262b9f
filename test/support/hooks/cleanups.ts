import { afterAll } from 'vitest';

/**
 * Registers what is undone after all tests of a file. The first registered function runs last.
 * Concurrent tests cannot use `onTestFinished`, which does not know which of them has called it.
 */
export function cleanups(): (undo: () => Promise<unknown> | unknown) => void {
  const undos: (() => Promise<unknown> | unknown)[] = [];
  afterAll(async () => {
    const [first, ...rest] = undos;
    await Promise.all(rest.map((undo) => undo()));
    await first?.();
  });
  return (undo) => void undos.push(undo);
}
