import type { Instant } from '../../hold/validity.ts';
import type { ClaimRef, Mode } from '../../store/store.ts';
import type { LockKeys } from './key.ts';
import type { Lease } from './lease.ts';

/** What this process knows of one of its claims. */
export class Claim implements ClaimRef {
  readonly name: string;
  readonly id: string;
  readonly mode: Mode;
  readonly lock: LockKeys;
  readonly key: Buffer;
  /** The create revision: its place in line and its fence. `null` until it is known to be there. */
  revision: bigint | null = null;
  lease: Lease;
  isGranted = false;
  /** It was put, or may have been, and has not been taken back since. */
  mayStand = false;
  /** The request that creates it is under way. */
  isEntering = false;
  /** Renewals under way: its time is not over while one may extend it. */
  renewals = 0;
  /** Its own time: a claim that is not renewed ends then, even when the lease that it shares goes on. */
  sent: Instant = { monotonicMs: 0, wallMs: 0 };
  validForMs = 0;

  constructor(ref: ClaimRef, mode: Mode, lock: LockKeys, key: Buffer, lease: Lease) {
    this.name = ref.name;
    this.id = ref.id;
    this.mode = mode;
    this.lock = lock;
    this.key = key;
    this.lease = lease;
  }

  get keyText(): string {
    return this.key.toString('latin1');
  }

  moveTo(lease: Lease): void {
    this.lease.claims.delete(this.keyText);
    this.lease = lease;
    lease.claims.add(this.keyText);
  }

  /** Counted from the send of the request that the caller waits for. */
  trust(sent: Instant): number {
    this.sent = sent;
    this.validForMs = this.lease.validForMs(sent);
    return this.validForMs;
  }
}

/** The claims that this store has made, by lock and id. */
export class Claims {
  readonly #byRef = new Map<string, Claim>();

  get size(): number {
    return this.#byRef.size;
  }

  get({ name, id }: ClaimRef): Claim | undefined {
    return this.#byRef.get(refText(name, id));
  }

  add(claim: Claim): void {
    this.#byRef.set(refText(claim.name, claim.id), claim);
    claim.lease.claims.add(claim.keyText);
  }

  remove(claim: Claim): void {
    const ref = refText(claim.name, claim.id);
    if (this.#byRef.get(ref) === claim) this.#byRef.delete(ref);
    claim.lease.claims.delete(claim.keyText);
  }

  *[Symbol.iterator](): Iterator<Claim> {
    yield* this.#byRef.values();
  }
}

/** No name contains a line feed. */
const refText = (name: string, id: string): string => `${name}\n${id}`;
