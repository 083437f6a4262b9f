import { ClosedError, StoreError } from '../../errors.ts';
import { instant } from '../../hold/validity.ts';
import type {
  ClaimOutcome,
  ClaimRef,
  ClaimRequest,
  RenewChange,
  RenewOutcome,
  Store,
  StoredClaim,
  Traits,
  WatchTarget,
} from '../../store/store.ts';
import { Asking } from './asking.ts';
import { Claim } from './claim.ts';
import type { EtcdClient } from './client.ts';
import { unknownLease } from './lease.ts';
import { listNames, readClaims } from './looking.ts';
import { type EtcdStoreOptions, makeParts, type Parts } from './parts.ts';
import { Sweeper } from './sweeper.ts';

const CLOSE_MS = 1_000;

/**
 * Locks in an etcd cluster, 3.4 or newer: keys ordered by create revision, leases shared by the claims of this store, fence = create revision. The client stays the
 * caller's: closing the store leaves it open. A claim's time is what etcd granted, in whole seconds and two at least, counted from the send of the last
 * confirmed extension.
 */
export function etcdStore(client: EtcdClient, options: EtcdStoreOptions = {}): Store {
  return new EtcdStore(makeParts(client, options));
}

export class EtcdStore implements Store {
  readonly traits: Traits = { lifetime: 'lease', ordered: true, counting: true, remembers: true };
  readonly #parts: Parts;
  readonly #asking: Asking;
  readonly #sweeper: Sweeper;
  readonly #closeClient: () => void;
  #isClosed = false;

  /** `closeClient`: for a client that was opened for this store. */
  constructor(parts: Parts, closeClient: () => void = () => {}) {
    this.#parts = parts;
    this.#closeClient = closeClient;
    this.#asking = new Asking(parts);
    this.#sweeper = new Sweeper(parts);
  }

  async claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    this.#assertOpen();
    this.#sweeper.start();
    return await this.#asking.claim(request, signal);
  }

  async renew(ref: ClaimRef, change: RenewChange): Promise<RenewOutcome> {
    this.#assertOpen();
    const sent = instant(this.#parts.clock);
    const claim = this.#parts.claims.get(ref) ?? (await this.#adopt(ref));
    if (claim === null || !(await this.#isGranted(claim))) return { held: false };
    if (!(await this.#parts.keeper.extend(claim, change))) {
      this.#forget(claim);
      return { held: false };
    }
    const validForMs = claim.trust(sent);
    if (change.note !== undefined) this.#letGo(claim);
    return { held: true, validForMs };
  }

  async release(ref: ClaimRef): Promise<boolean> {
    this.#assertOpen();
    const claim = this.#parts.claims.get(ref);
    if (claim === undefined) return await this.#removeFound(ref);
    const isRemoved = await this.#remove(claim.key, claim.revision);
    // A request that is still under way may create it yet: then it stays known, so that it can be released again.
    if (isRemoved || !claim.isEntering) this.#forget(claim);
    return isRemoved;
  }

  async evict(ref: ClaimRef): Promise<boolean> {
    this.#assertOpen();
    return await this.#removeFound(ref);
  }

  async watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    const { claims, hub, keys, waiters } = this.#parts;
    const claim = target.id === undefined ? undefined : claims.get({ name: target.name, id: target.id });
    if (claim !== undefined && !claim.isGranted) return await waiters.listen(claim, wake);
    const { from: key, end: range_end } = keys.lock(target.name);
    const watching = hub.add({ key, range_end, from: 0n, puts: target.id === undefined }, wake);
    await watching.armed;
    return { [Symbol.asyncDispose]: async () => watching.cancel() };
  }

  async read(name: string): Promise<readonly StoredClaim[]> {
    this.#assertOpen();
    const { reader, calls, keys } = this.#parts;
    return await readClaims(reader, calls, keys.lock(name));
  }

  async *list(prefix: string): AsyncIterable<string> {
    this.#assertOpen();
    yield* listNames(this.#parts.transactions, this.#parts.keys, prefix);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#sweeper.stop();
    const { hub, leases, clock } = this.#parts;
    hub.close();
    await new Promise<void>((resolve) => {
      const timer = clock.startTimer(CLOSE_MS, resolve, { keepAlive: true });
      void leases.close().then(() => {
        timer.cancel();
        resolve();
      });
    });
    this.#closeClient();
  }

  #assertOpen(): void {
    if (this.#isClosed) throw new ClosedError('This store is closed');
  }

  async #isGranted(claim: Claim): Promise<boolean> {
    if (claim.isGranted) return true;
    if (claim.revision === null) return false;
    const look = await this.#parts.reader.look(claim, claim.revision);
    return look.isThere && look.verdict.granted;
  }

  /** A claim that another connection has made. */
  async #adopt(ref: ClaimRef): Promise<Claim | null> {
    const { keys, reader, claims, clock } = this.#parts;
    const lock = keys.lock(ref.name);
    const found = await reader.find(lock, ref);
    if (found === null || !found.ours) return null;
    const claim = new Claim(ref, found.mode, lock, found.key, unknownLease(clock));
    claim.revision = found.revision;
    if (!(await this.#isGranted(claim))) return null;
    claim.isGranted = true;
    claims.add(claim);
    this.#sweeper.start();
    return claim;
  }

  async #removeFound(ref: ClaimRef): Promise<boolean> {
    const found = await this.#parts.reader.find(this.#parts.keys.lock(ref.name), ref);
    return found !== null && (await this.#remove(found.key, found.revision));
  }

  async #remove(key: Buffer, revision: bigint | null): Promise<boolean> {
    const { succeeded, attempts } = await this.#parts.reader.remove(key, revision);
    // The client has tried it more than once: that it found nothing may be its own earlier doing.
    if (!succeeded && attempts !== 1)
      throw new StoreError('The answer to a release was lost', { applied: 'unknown' });
    return succeeded;
  }

  /** A claim with a last note is left behind, perhaps for a day: it is not remembered here for as long. Should it be asked for again, it is found again. */
  #letGo(claim: Claim): void {
    if (claim.lease.isKept) return;
    claim.lease.hasStrangers = true;
    this.#forget(claim);
  }

  #forget(claim: Claim): void {
    this.#parts.claims.remove(claim);
    this.#parts.waiters.end(claim);
  }
}
