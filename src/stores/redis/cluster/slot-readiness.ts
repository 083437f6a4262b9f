import type { Clock } from '../../../clock.ts';
import type { HoldfastError } from '../../../errors.ts';
import { failureOf } from '../failure.ts';
import { ReadinessCheck } from '../readiness-check.ts';
import type { ClusterConnection } from './cluster-connection.ts';

/**
 * Whether commands of one slot can be sent: the Cluster can be used, and the node of the slot is
 * connected. Until then, commands stay in the batches of their slot, and those of callers that give
 * up are removed. Otherwise abandoned claims would be sent when the node is back.
 */
export class SlotReadiness extends ReadinessCheck {
  readonly #cluster: ReadinessCheck;
  readonly #connection: ClusterConnection;
  readonly #slot: number;

  /** `cluster`: the check of the servers, which all slots share. */
  constructor(cluster: ReadinessCheck, connection: ClusterConnection, slot: number, clock: Clock) {
    super(connection, true, clock);
    this.#cluster = cluster;
    this.#connection = connection;
    this.#slot = slot;
  }

  override get isOpen(): boolean {
    return this.#cluster.isOpen && this.#connection.isSlotReady(this.#slot);
  }

  override whenReady(callback: (refusal: HoldfastError | null) => void): () => void {
    return this.#cluster.whenReady((refusal) => {
      if (refusal !== null) callback(refusal);
      else
        this.#connection.whenSlotReady(this.#slot).then(
          () => callback(null),
          (error: unknown) => callback(failureOf(error)),
        );
    });
  }

  override assertNotClosed(): void {
    this.#cluster.assertNotClosed();
  }
}
