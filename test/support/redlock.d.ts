/** redlock 5 has types that its package does not export; what is used of it here. */
declare module 'redlock' {
  export interface Lock {
    readonly value: string;
    release(): Promise<unknown>;
  }
  export default class Redlock {
    constructor(clients: readonly unknown[], settings?: { retryCount?: number; retryDelay?: number });
    acquire(resources: readonly string[], ttlMs: number): Promise<Lock>;
  }
}
