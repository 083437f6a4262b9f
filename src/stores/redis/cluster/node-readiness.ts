import type { Clock } from '../../../clock.ts';
import { settlesWithin } from '../../../util/backoff.ts';
import type { RedisConnection } from '../connection.ts';
import { noConnection } from '../failure.ts';
import type { ClusterNode } from './nodes.ts';

/** How long connecting to a node may take. */
const CONNECT_MS = 500;

/**
 * Waits until a node is connected. All commands that wait for a node share one listener on the
 * user's client, and its time limit: with a listener for each, a dead master would make listeners
 * pile up.
 */
export class NodeReadiness {
  readonly #clock: Clock;
  readonly #waiting = new Map<ClusterNode, Promise<RedisConnection>>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Rejects if connecting takes too long, or is refused. */
  wait(node: ClusterNode): Promise<RedisConnection> {
    if (node.connection?.isReady === true) return Promise.resolve(node.connection);
    const waiting = this.#waiting.get(node) ?? this.#connect(node).finally(() => this.#waiting.delete(node));
    this.#waiting.set(node, waiting);
    return waiting;
  }

  async #connect(node: ClusterNode): Promise<RedisConnection> {
    let isOver = false;
    let stopListening = (): void => {};
    const connected = node.connect().then(
      (connection) =>
        new Promise<void>((resolve) => {
          if (isOver || connection.isReady) resolve();
          else stopListening = connection.onceReady(resolve);
        }),
    );
    // If the owner closes the client meanwhile, nothing else keeps the process alive until the
    // command has failed.
    await settlesWithin(this.#clock, connected, CONNECT_MS, { keepAlive: true });
    isOver = true;
    stopListening();
    if (node.connection?.isReady !== true) throw noConnection(node);
    return node.connection;
  }
}
