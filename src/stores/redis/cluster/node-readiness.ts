import type { Clock } from '../../../clock.ts';
import type { RedisConnection } from '../connection.ts';
import { noConnection } from '../failure.ts';

/** How long connecting to a node may take. */
const CONNECT_MS = 500;

/** The commands that wait for one node. */
interface Waiting {
  readonly settle: Set<() => void>;
  stopListening: () => void;
}

/**
 * Waits until a node is connected. All commands that wait for a node share one listener on the
 * user's client, which is removed with the last of them: with a listener for each, a dead master
 * would make listeners pile up.
 */
export class NodeReadiness {
  readonly #clock: Clock;
  readonly #waiting = new Map<RedisConnection, Waiting>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects if connecting takes too long, or is refused. */
  wait(connection: RedisConnection): Promise<RedisConnection> {
    if (connection.isReady) return Promise.resolve(connection);
    return new Promise((resolve, reject) => {
      const settle = (): void => {
        timer.cancel();
        this.#remove(connection, settle);
        if (connection.isReady) resolve(connection);
        else reject(noConnection(connection));
      };
      // If the owner closes the client meanwhile, nothing else keeps the process alive until the
      // command has failed.
      const timer = this.#clock.startTimer(CONNECT_MS, settle, { keepAlive: true });
      this.#add(connection, settle);
    });
  }

  #add(connection: RedisConnection, settle: () => void): void {
    const waiting = this.#waiting.get(connection);
    if (waiting !== undefined) {
      waiting.settle.add(settle);
      return;
    }
    const first: Waiting = { settle: new Set([settle]), stopListening: () => {} };
    this.#waiting.set(connection, first);
    first.stopListening = connection.onceReady(() => {
      for (const each of [...first.settle]) each();
    });
  }

  #remove(connection: RedisConnection, settle: () => void): void {
    const waiting = this.#waiting.get(connection);
    if (waiting === undefined || !waiting.settle.delete(settle) || waiting.settle.size > 0) return;
    this.#waiting.delete(connection);
    waiting.stopListening();
  }
}
