/** The types of redlock 5 that are used here: its package does not export them. */
declare module 'redlock' {
  export interface Lock {
    readonly value: string;
    release(): Promise<unknown>;
  }
  export interface Settings {
    readonly retryCount?: number;
    readonly retryDelay?: number;
    readonly automaticExtensionThreshold?: number;
  }
  export default class Redlock {
    constructor(clients: readonly unknown[], settings?: Settings);
    acquire(resources: readonly string[], ttlMs: number): Promise<Lock>;
    using<T>(resources: string[], ttlMs: number, section: (signal: AbortSignal) => Promise<T>): Promise<T>;
  }
}
