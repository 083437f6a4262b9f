/** A request of a worker to the register, and the answer. */
export interface RegisterRequest {
  readonly id: number;
  readonly lock: string;
  readonly fence: string;
  /** Absent: a read. */
  readonly value?: number;
}

export interface RegisterReply {
  readonly id: number;
  readonly isAccepted: boolean;
  readonly value: number;
}

/**
 * A number for each lock that checks fences, as a database row with a fence gate does. A read
 * counts too: a holder whose successor has read may not write any more.
 */
export class FencedRegister {
  readonly #rows = new Map<string, { value: number; fence: bigint }>();

  apply({ id, lock, fence: text, value }: RegisterRequest): RegisterReply {
    const fence = BigInt(text);
    const row = this.#rows.get(lock) ?? { value: 0, fence };
    const isAccepted = fence >= row.fence;
    if (isAccepted) this.#rows.set(lock, { value: value ?? row.value, fence });
    return { id, isAccepted, value: value !== undefined && isAccepted ? value : row.value };
  }
}
