import { afterAll } from 'vitest';

/** What is undone when a file's tests are over, the first of it last. Tests that run at once cannot tell whose `onTestFinished` is whose. */
export function cleanups(): (undo: () => Promise<unknown> | unknown) => void {
  const undos: (() => Promise<unknown> | unknown)[] = [];
  afterAll(async () => {
    const [first, ...rest] = undos;
    await Promise.all(rest.map((undo) => undo()));
    await first?.();
  });
  return (undo) => void undos.push(undo);
}
