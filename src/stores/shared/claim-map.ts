import type { ClaimRef } from '../../store/store.ts';

/** Identifies a claim in this process. No name contains a line feed. */
export const claimKey = ({ name, id }: ClaimRef): string => `${name}\n${id}`;

/** Claims, by name and id. */
export class ClaimMap<Claim extends ClaimRef> {
  readonly #byKey = new Map<string, Claim>();

  get size(): number {
    return this.#byKey.size;
  }

  get(ref: ClaimRef): Claim | undefined {
    return this.#byKey.get(claimKey(ref));
  }

  has(claim: Claim): boolean {
    return this.get(claim) === claim;
  }

  add(claim: Claim): void {
    this.#byKey.set(claimKey(claim), claim);
  }

  /** Returns false when this claim is not in the map: it may have been replaced by a newer one. */
  delete(claim: Claim): boolean {
    return this.has(claim) && this.#byKey.delete(claimKey(claim));
  }

  [Symbol.iterator](): Iterator<Claim> {
    return this.#byKey.values();
  }
}
