/**
 * What the torture needs of a lock library. A module of an adapter exports as its default a
 * function `(env: AdapterEnv) => Promise<Adapter>`; every worker process loads it and calls it
 * once.
 */
export interface Adapter {
  /** The library and its version, for the report. */
  name: string;
  /**
   * Waits for the lock, and gives `null` when it gives up. A rejection means that the outcome is
   * unknown.
   */
  acquire(lock: string, ttlMs: number): Promise<Held | null>;
  /** Gives up every connection. The process ends afterwards. */
  close(): Promise<void>;
  /**
   * Optional: a hold that other shared holds of the same lock may overlap, but no exclusive one.
   */
  acquireShared?(lock: string, ttlMs: number): Promise<Held | null>;
  /** Optional: one of `permits` permits. */
  acquirePermit?(lock: string, ttlMs: number): Promise<Held | null>;
  /** How many holds `acquirePermit` allows at once. */
  permits?: number;
  /** The library promises first come, first served. Not checked unless it is `true`. */
  isFair?: boolean;
}

/** A lock that the adapter was granted. */
export interface Held {
  /** Must rise with every grant of the same lock, where the library has fences. */
  fence?: bigint | number | string;
  /** Whether the program may still rely on the lock, by all that the library tells a program. */
  isHeld(): boolean;
  release(): Promise<void>;
}

/** The options of an adapter. */
export interface AdapterEnv {
  /** The server, through a connection that will fail. */
  url: string;
}

/**
 * The default export of an adapter module. A rejection means that the server is out of reach now.
 */
export type MakeAdapter = (env: AdapterEnv) => Promise<Adapter>;
