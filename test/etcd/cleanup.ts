import { afterAll } from 'vitest';

/** What is undone when a file's tests are over, the last first. Tests that run at once cannot tell whose `onTestFinished` is whose. */
export function cleanups(): (undo: () => Promise<unknown> | unknown) => void {
  const undos: (() => Promise<unknown> | unknown)[] = [];
  afterAll(async () => {
    for (const undo of undos.reverse()) await undo();
  });
  return (undo) => void undos.push(undo);
}
