/** What the program of an outage reports about itself at one moment. */
export interface Figures {
  readonly atMs: number;
  /** In bytes, after a garbage collection. */
  readonly heap: number;
  readonly cpuMs: number;
  /** On the clients of the store, all events together. */
  readonly listeners: number;
  /** Made so far. */
  readonly calls: number;
  /** Of the calls, those that were granted the lock. */
  readonly holds: number;
}
