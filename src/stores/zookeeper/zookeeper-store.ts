import { ClosedError, StoreError } from '../../errors.ts';
import { pause } from '../../hold/pause.ts';
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
import { Turns } from '../turns.ts';
import { Asking } from './asking.ts';
import { type Claim, refText } from './claim.ts';
import type { ZookeeperClient } from './client.ts';
import { Leaving } from './leaving.ts';
import { LockWatch } from './lock-watch.ts';
import { listNames, readClaims } from './looking.ts';
import { makeParts, type Parts, type ZookeeperStoreOptions } from './parts.ts';

const CLOSE_MS = 1_000;

/**
 * Locks in a ZooKeeper ensemble, 3.5 or newer: ephemeral sequential nodes, all of one session, shared with kazoo's `Lock`, `ReadLock` and `WriteLock`; fence = czxid. Claims live as long as the session does, and
 * are trusted for less than that.
 *
 * `client`: a client of `node-zookeeper-client`, connected or about to be. It stays the caller's, and closing the store leaves it open. A client is of no more use once its session has expired; the store then makes another
 * like it for itself, which it closes. Or a function that makes clients: the store connects and closes each.
 */
export function zookeeperStore(
  client: ZookeeperClient | (() => ZookeeperClient),
  options: ZookeeperStoreOptions = {},
): Store {
  return new ZookeeperStore(makeParts(client, options));
}

export class ZookeeperStore implements Store {
  readonly traits: Traits = { lifetime: 'session', ordered: true, counting: true, remembers: false };
  readonly #parts: Parts;
  readonly #leaving: Leaving;
  readonly #asking: Asking;
  /** One request at a time for each claim. */
  readonly #turns = new Turns();
  #isClosed = false;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#leaving = new Leaving(parts);
    this.#asking = new Asking(parts, this.#leaving);
    parts.sessions.listen((session) => {
      if (session.isOver) {
        parts.waiters.unwatch();
        return;
      }
      parts.waiters.watchAgain();
      void this.#leaving.finish(session);
    });
  }

  claim(request: ClaimRequest, signal?: AbortSignal): Promise<ClaimOutcome> {
    if (this.#isClosed) return Promise.reject(closed());
    return this.#turns.run(refText(request.name, request.id), () => this.#asking.claim(request, signal));
  }

  async renew(ref: ClaimRef, change: RenewChange, signal?: AbortSignal): Promise<RenewOutcome> {
    this.#assertOpen();
    const sent = instant(this.#parts.clock);
    const claim = this.#parts.claims.get(ref);
    if (claim === undefined || !(await this.#asking.isGrantedNow(claim))) return { held: false };
    if (!(await this.#isThere(claim, change.note, signal))) return { held: false };
    const validForMs = claim.session.leftMs(sent);
    if (validForMs <= 0)
      throw new StoreError('The session was not confirmed in time', { applied: 'unknown' });
    return { held: true, validForMs };
  }

  release(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    if (this.#isClosed) return Promise.reject(closed());
    return this.#turns.run(refText(ref.name, ref.id), () => this.#leaving.release(ref, signal));
  }

  async evict(ref: ClaimRef, signal?: AbortSignal): Promise<boolean> {
    this.#assertOpen();
    return await this.#leaving.removeFound(ref, signal);
  }

  async watch(target: WatchTarget, wake: () => void): Promise<AsyncDisposable> {
    this.#assertOpen();
    const { claims, sessions, waiters } = this.#parts;
    if (target.id === undefined) {
      const watch = new LockWatch(this.#parts, target.name, wake);
      await watch.arm().catch(async (error: unknown) => {
        // Nobody gets it, so nobody would end it.
        await watch[Symbol.asyncDispose]();
        throw error;
      });
      return watch;
    }
    const claim = claims.get({ name: target.name, id: target.id });
    const listening = sessions.listen(wake);
    const watch = claim === undefined || claim.isGranted ? null : waiters.listen(claim, wake);
    await watch?.catch((error: unknown) => {
      listening.stop();
      throw error;
    });
    return {
      [Symbol.asyncDispose]: async () => {
        listening.stop();
        await (await watch)?.[Symbol.asyncDispose]();
      },
    };
  }

  async read(name: string, signal?: AbortSignal): Promise<readonly StoredClaim[]> {
    this.#assertOpen();
    const session = await this.#parts.sessions.ready(signal);
    const lock = this.#parts.tree.lock(name);
    const line = await this.#leaving.look(session, lock);
    return line === null ? [] : await readClaims(session, lock, line);
  }

  async *list(prefix: string, signal?: AbortSignal): AsyncIterable<string> {
    this.#assertOpen();
    yield* listNames(await this.#parts.sessions.ready(signal), this.#parts.tree, prefix);
  }

  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { claims, clock, sessions } = this.#parts;
    // A client that stays open keeps its session, and with it every node that is not removed.
    const removed = Promise.allSettled([...claims].map((claim) => this.#leaving.release(claim, undefined)));
    const over = new AbortController();
    await Promise.race([removed, pause(clock, CLOSE_MS, { keepAlive: true, signal: over.signal })]);
    // What is not needed any more must not keep the process alive.
    over.abort();
    await sessions.close();
  }

  #assertOpen(): void {
    if (this.#isClosed) throw closed();
  }

  /** Is it there, for the leader and a majority? That also confirms the session. */
  async #isThere(claim: Claim, note: string | undefined, signal: AbortSignal | undefined): Promise<boolean> {
    const { session } = claim;
    try {
      await session.ready(signal);
      const isThere =
        note === undefined
          ? (await session.writes.check(claim.path, null)).isThere
          : await session.calls.setData(claim.path, Buffer.from(note));
      if (isThere) return true;
    } catch (error) {
      // What the server has ended is lost; about what could not be asked nothing is known.
      if (!session.isOver) throw error;
    }
    this.#leaving.forget(claim);
    return false;
  }
}

const closed = (): ClosedError => new ClosedError('This store is closed');
