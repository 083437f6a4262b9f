import type { ClaimRef, Mode } from '../../store/store.ts';
import type { Session } from './session.ts';

/** What this process knows of one of its claims. */
export class Claim implements ClaimRef {
  readonly name: string;
  readonly id: string;
  mode: Mode;
  /** The path of its lock. */
  readonly lock: string;
  session: Session;
  /** Its child of the lock; `null` until it is known to be there. */
  node: string | null = null;
  place = 0;
  /** The transaction that created it. */
  fence: bigint | null = null;
  isGranted = false;
  /** Somebody has given it up, and the server has not confirmed it yet. */
  isLeaving = false;
  /** What it waits for. */
  behind: string | null = null;
  /** Until then nothing can have changed of which we would not have been told. */
  quietUntilMs = 0;

  constructor(ref: ClaimRef, mode: Mode, lock: string, session: Session) {
    this.name = ref.name;
    this.id = ref.id;
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
    this.behind = null;
    this.quietUntilMs = 0;
  }
}

/** The claims that this store has made, by lock and id. */
export class Claims {
  readonly #byRef = new Map<string, Claim>();

  get({ name, id }: ClaimRef): Claim | undefined {
    return this.#byRef.get(refText(name, id));
  }

  add(claim: Claim): void {
    this.#byRef.set(refText(claim.name, claim.id), claim);
  }

  remove(claim: Claim): void {
    this.#byRef.delete(refText(claim.name, claim.id));
  }

  *[Symbol.iterator](): Iterator<Claim> {
    yield* this.#byRef.values();
  }
}

/** No name contains a line feed. */
export const refText = (name: string, id: string): string => `${name}\n${id}`;
