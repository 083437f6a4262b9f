import type { Clock } from '../../../clock.ts';
import { UnsupportedError } from '../../../errors.ts';
import type { ClaimRef, StoredClaim } from '../../../store/store.ts';
import { usedName } from '../../../use.ts';
import type { Claim } from './claim.ts';
import type { KeyFinder } from './key-of-name.ts';
import type { Lock } from './lock.ts';
import { type Answer, type Peer, PeerMessages, type Question } from './peer-messages.ts';
import type { Sessions } from './sessions.ts';

/** How long other processes have to answer which claims they hold. */
const SHOW_MS = 300;
/** How long a holder's process has to release an evicted claim. */
const EVICT_MS = 2_000;
/** The id of a holder of another program: its server process. */
const FOREIGN = /^session (\d+)$/;
const SHOWN_MAX = 50;

interface InspectOptions {
  readonly clock: Clock;
  readonly sessions: Sessions;
  readonly keys: KeyFinder;
  readonly locks: ReadonlyMap<string, Lock>;
  /** Evicts a claim of this process. */
  evictHere(ref: ClaimRef): Promise<boolean>;
}

/** Shows the holders of a lock, and evicts one. Both ask the other processes by NOTIFY. */
export class Inspect {
  readonly #options: InspectOptions;
  readonly #messages: PeerMessages;

  constructor(options: InspectOptions) {
    this.#options = options;
    this.#messages = new PeerMessages(options.clock, (question) => this.#answer(question));
  }

  /** Only the holders: the processes have no common queue. */
  async read(name: string): Promise<readonly StoredClaim[]> {
    const { sessions, keys, locks } = this.#options;
    const session = await sessions.current();
    const key = await keys.find(name, session);
    const { peers, parts } = await this.#messages.ask(session, key, { ask: 'show', id: '' }, SHOW_MS);
    const own = locks.get(key.text)?.held ?? [];
    const silent = peers.filter(
      ({ sessionId, holds }) => holds && !parts.some((part) => part?.session === sessionId),
    );
    return [...own.map((claim) => this.#show(claim)), ...parts.flatMap(asStored), ...silent.map(foreign)];
  }

  /**
   * Names of the locks that this process holds. Keys are hashes, so the names of other locks cannot
   * be known.
   */
  *list(prefix: string): Iterable<string> {
    const names = new Set<string>();
    for (const { held } of this.#options.locks.values())
      for (const { name } of held) if (name.startsWith(prefix)) names.add(name);
    // `once`, rate limits and schedules need a store that remembers, so they have no names here.
    if (names.size === 0 && usedName(prefix).use === 'lock')
      throw new UnsupportedError(
        'Advisory locks have keys, not names: only the locks that this process holds can be listed, ' +
          'and it holds none with this prefix',
      );
    yield* names;
  }

  /**
   * Rejects with `UnsupportedError` for a holder of another program: only its whole session could be
   * ended.
   */
  async evict(ref: ClaimRef): Promise<boolean> {
    const { sessions, keys, evictHere } = this.#options;
    const session = await sessions.current();
    if (await evictHere(ref)) return true;
    const key = await keys.find(ref.name, session);
    const { peers, parts } = await this.#messages.ask(session, key, { ask: 'evict', id: ref.id }, EVICT_MS);
    if (parts.some((part) => part?.evicted === true)) return true;
    const sessionId = Number(FOREIGN.exec(ref.id)?.[1] ?? 0);
    if (peers.some((each) => each.sessionId === sessionId && each.holds)) {
      throw new UnsupportedError(
        `Session ${sessionId} belongs to another program, and PostgreSQL cannot take one lock from it. ` +
          `SELECT pg_terminate_backend(${sessionId}) ends the session with all of its locks`,
      );
    }
    return false;
  }

  onMessage(text: string): void {
    const { now } = this.#options.sessions;
    if (now !== null) this.#messages.receive(text, now);
  }

  /** What this process answers to a question from another. */
  async #answer({ ask, key, id }: Question): Promise<readonly Answer['part'][]> {
    const { locks, evictHere } = this.#options;
    const lock = locks.get(key);
    if (lock === undefined) return [];
    const session = lock.session.id;
    if (ask === 'show')
      return lock.held.slice(0, SHOWN_MAX).map((claim) => {
        const { fence, ...shown } = this.#show(claim);
        return { ...shown, fence: String(fence), session };
      });
    const claim = lock.find(id);
    return claim !== undefined && (await evictHere(claim)) ? [{ evicted: true, session }] : [];
  }

  #show({ id, mode, fence, grantedAtMs, note }: Claim): StoredClaim {
    const heldForMs = this.#options.clock.monotonicMs() - grantedAtMs;
    return { id, granted: true, mode: { kind: mode }, fence, heldForMs, expiresInMs: null, note };
  }
}

/** A holder of another program. The server knows nothing more of it. */
function foreign({ sessionId, mode, application }: Peer): StoredClaim {
  return {
    id: `session ${sessionId}`,
    granted: true,
    mode: { kind: mode },
    fence: null,
    heldForMs: null,
    expiresInMs: null,
    note: null,
    owner: application,
  };
}

/** Any session can send a message, so an answer counts only when it has the right form. */
function asStored(part: Answer['part']): StoredClaim[] {
  const { id, fence, heldForMs, note, mode } = part ?? {};
  const kind = (mode as { kind?: unknown } | undefined)?.kind;
  if (typeof id !== 'string' || (kind !== 'exclusive' && kind !== 'shared')) return [];
  if (typeof fence !== 'string' || !/^\d{1,19}$/.test(fence) || typeof heldForMs !== 'number') return [];
  const text = typeof note === 'string' ? note : null;
  return [
    { id, granted: true, mode: { kind }, fence: BigInt(fence), heldForMs, expiresInMs: null, note: text },
  ];
}
