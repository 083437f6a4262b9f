// What takes the place of src/events.ts and src/hold/acquire-trace.ts in the build without telemetry: the
// same names, and none of the work.

const none = (): void => {};

export class Events {
  on(): () => void {
    return none;
  }

  observe(): () => void {
    return none;
  }

  isHeard(): boolean {
    return false;
  }

  isWanted(): boolean {
    return false;
  }

  tell(): void {}

  emit(): void {}
}

export const isEvent = (): boolean => true;
export const callListener = none;
export const warnOf = none;

export const beginTrace = (): null => null;
export const endTrace = none;
export const inTrace = <T>(_trace: unknown, run: () => T): T => run();
export const onAcquireTrace = (): (() => void) => none;
