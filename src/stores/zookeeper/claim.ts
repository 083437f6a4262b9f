import type { ClaimRef, Mode } from '../../store/store.ts';
import type { Session } from './session.ts';
import type { LockNode } from './vacancies.ts';

/** What this process knows of one of its claims. */
export class Claim implements ClaimRef {
  readonly name: string;
  readonly id: string;
  readonly key: string;
  mode: Mode;
  /** The path of its lock. */
  readonly lock: string;
  session: Session;
  /** Its child of the lock; `null` until it is known to be there. */
  node: string | null = null;
  place = 0;
  /** The transaction that created it. */
  fence: bigint | null = null;
  /** What that must be above: what had been seen when it entered the line. */
  fenceAbove = 0n;
  isGranted = false;
  /** Whether it is one of the store's claims, and under which key as one that waits. */
  isKnown = false;
  placeKey: string | null = null;
  /** It holds, and nothing in line was ahead of it then; nor can anything come ahead of it later. */
  isFirst = false;
  /** What its place was counted by, when that is watched. */
  lockNode: LockNode | null = null;
  /** Somebody has given it up, and the server has not confirmed it yet. */
  isLeaving = false;
  /** Being removed now: whether that removed it. */
  removal: Promise<boolean> | null = null;
  /** What it waits for. */
  behind: string | null = null;
  /** Until then nothing can have changed of which we would not have been told. */
  quietUntilMs = 0;

  constructor(ref: ClaimRef, mode: Mode, lock: string, session: Session) {
    this.name = ref.name;
    this.id = ref.id;
    this.key = refText(ref.name, ref.id);
    this.mode = mode;
    this.lock = lock;
    this.session = session;
  }

  get path(): string {
    return `${this.lock}/${this.node ?? ''}`;
  }

  /** Whatever it was went with an earlier session; it begins anew in this one. */
  moveTo(session: Session): void {
    this.session = session;
    this.node = null;
    this.fence = null;
    this.isGranted = false;
    this.isFirst = false;
    this.lockNode = null;
    this.behind = null;
    this.quietUntilMs = 0;
  }
}

/** The claims that this store has made, by lock and id, and by their places. */
export class Claims {
  readonly #byRef = new Map<string, Claim>();
  readonly #byPlace = new Map<string, Claim>();

  get size(): number {
    return this.#byRef.size;
  }

  get({ name, id }: ClaimRef): Claim | undefined {
    return this.#byRef.get(refText(name, id));
  }

  add(claim: Claim): void {
    if (claim.isKnown) return;
    claim.isKnown = true;
    this.#byRef.set(claim.key, claim);
  }

  /** It waits in its place. */
  place(claim: Claim): void {
    const key = placeText(claim, claim.place);
    if (claim.placeKey === key) return;
    this.#unplace(claim);
    claim.placeKey = key;
    this.#byPlace.set(key, claim);
  }

  /** The claim of ours that has waited in the place right ahead of this one, and may hold by now. */
  ahead({ lock, place, session }: Claim): Claim | null {
    const found = this.#byPlace.get(placeText({ lock }, (place - 1) | 0));
    return found?.node != null && found.session === session ? found : null;
  }

  remove(claim: Claim): void {
    if (!claim.isKnown) return;
    claim.isKnown = false;
    this.#byRef.delete(claim.key);
    this.#unplace(claim);
  }

  #unplace(claim: Claim): void {
    if (claim.placeKey === null) return;
    if (this.#byPlace.get(claim.placeKey) === claim) this.#byPlace.delete(claim.placeKey);
    claim.placeKey = null;
  }

  *[Symbol.iterator](): Iterator<Claim> {
    yield* this.#byRef.values();
  }
}

/** No name contains a line feed. */
export const refText = (name: string, id: string): string => `${name}\n${id}`;

const placeText = ({ lock }: { readonly lock: string }, place: number): string => `${lock}\n${place}`;
