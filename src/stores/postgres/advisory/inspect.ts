import type { Clock } from '../../../clock.ts';
import { UnsupportedError } from '../../../errors.ts';
import type { ClaimRef, StoredClaim } from '../../../store/store.ts';
import { usedName } from '../../../use.ts';
import type { Row } from '../driver-connection.ts';
import type { Claim } from './claim.ts';
import type { Claims } from './claims.ts';
import type { KeyFinder } from './key-of-name.ts';
import { type LockKey, lockTag, lockTagOf, OURS } from './key-parameters.ts';
import { type Answer, PeerMessages, type Question } from './peer-messages.ts';
import type { Session } from './session.ts';
import type { Sessions } from './sessions.ts';

/** How long other processes have to answer which claims they hold. */
const SHOW_MS = 300;
/** How long a holder's process has to release an evicted claim. */
const EVICT_MS = 2_000;
/** The id of a holder of another program: its server process. */
const FOREIGN = /^session (\d+)$/;
const SHOWN_MAX = 50;

/**
 * Finds the other sessions that have the lock or wait for it, and sends the message to those of
 * Holdfast. The first row only identifies the server process that answers.
 */
const LOOK = `WITH found AS MATERIALIZED (
  SELECT l.pid, bool_or(l.mode = 'ExclusiveLock') AS exclusive, max(a.application_name) AS application,
    bool_or(concat_ws(' ', l.classid, l.objid, l.objsubid) = $1::text) AS holds,
    EXISTS (SELECT FROM pg_locks AS o WHERE o.pid = l.pid AND o.locktype = 'advisory'
      AND concat_ws(' ', o.classid, o.objid, o.objsubid) = $3::text) AS ours
  FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
  WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND concat_ws(' ', l.classid, l.objid, l.objsubid) IN ($1::text, $2::text)
  GROUP BY l.pid)
SELECT pg_backend_pid()::text, NULL, NULL, NULL, NULL, NULL
UNION ALL
SELECT pg_backend_pid()::text, pid::text, exclusive::text, application, holds::text,
  CASE WHEN ours THEN 'ours' || pg_notify('holdfast_advisory_' || pid, $4::text)::text END FROM found`;

/** Another session that has the lock, or waits for it. */
interface Found {
  readonly sessionId: number;
  readonly mode: 'exclusive' | 'shared';
  readonly application: string | null;
  readonly holds: boolean;
  readonly isOurs: boolean;
}

interface InspectOptions {
  readonly clock: Clock;
  readonly sessions: Sessions;
  readonly keys: KeyFinder;
  readonly claims: Claims;
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
    const { sessions, keys, claims } = this.#options;
    const session = await sessions.current(null);
    const key = await keys.find(name, session);
    const question = { ask: 'show', key: key.text, id: '' } as const;
    const { found, parts } = await this.#askPeers(question, key, session, SHOW_MS);
    const own = [...(claims.locks.get(key.text)?.users.values() ?? [])].filter(isHeld);
    const shown = parts.flatMap((part) => asStored(part));
    const silent = found.filter(
      ({ sessionId, holds }) => holds && !parts.some((part) => part?.session === sessionId),
    );
    return [...own.map((claim) => this.#show(claim)), ...shown, ...silent.map(foreign)];
  }

  /**
   * Names of the locks that this process holds. Keys are hashes, so the names of other locks cannot
   * be known.
   */
  *list(prefix: string): Iterable<string> {
    const names = new Set<string>();
    for (const { name } of this.#options.claims.locks.held()) if (name.startsWith(prefix)) names.add(name);
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
    const { sessions, keys, claims } = this.#options;
    const session = await sessions.current(null);
    if (await claims.evict(ref)) return true;
    const key = await keys.find(ref.name, session);
    const question = { ask: 'evict', key: key.text, id: ref.id } as const;
    const { found, parts } = await this.#askPeers(question, key, session, EVICT_MS);
    if (parts.some((part) => part?.evicted === true)) return true;
    const sessionId = Number(FOREIGN.exec(ref.id)?.[1] ?? 0);
    if (found.some((each) => each.sessionId === sessionId && each.holds)) {
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

  async #askPeers(
    question: Question,
    key: LockKey,
    session: Session,
    limitMs: number,
  ): Promise<{ found: readonly Found[]; parts: readonly Answer['part'][] }> {
    let found: readonly Found[] = [];
    const parts = await this.#messages.ask({ from: session.id, ...question }, limitMs, async (text) => {
      const tags = [lockTag(key), lockTagOf(key.companion), lockTagOf(OURS)];
      const rows = await session.run({ text: LOOK, values: [...tags, text] });
      found = rows.slice(1).map(asFound);
      return found.filter((each) => each.isOurs).length;
    });
    return { found, parts };
  }

  /** What this process answers to a question from another. */
  async #answer({ ask, key, id }: Question): Promise<readonly Answer['part'][]> {
    const { claims } = this.#options;
    const lock = claims.locks.get(key);
    if (lock === undefined) return [];
    const session = lock.session.id;
    if (ask === 'show') {
      const held = [...lock.users.values()].filter(isHeld);
      return held.slice(0, SHOWN_MAX).map((claim) => {
        const { fence, ...shown } = this.#show(claim);
        return { ...shown, fence: String(fence), session };
      });
    }
    const claim = lock.find(id);
    return claim !== undefined && (await claims.evict(claim)) ? [{ evicted: true, session }] : [];
  }

  #show({ id, mode, fence, grantedAtMs, note }: Claim): StoredClaim {
    const heldForMs = this.#options.clock.monotonicMs() - grantedAtMs;
    return { id, granted: true, mode: { kind: mode }, fence, heldForMs, expiresInMs: null, note };
  }
}

const isHeld = ({ fence }: Claim): boolean => fence !== null;

function asFound([, sessionId, exclusive, application, holds, ours]: Row): Found {
  const mode = exclusive === 'true' ? 'exclusive' : 'shared';
  return {
    sessionId: Number(sessionId),
    mode,
    application: application === '' || application === undefined ? null : application,
    holds: holds === 'true',
    isOurs: ours === 'ours',
  };
}

/** A holder of another program. The server knows nothing more of it. */
function foreign({ sessionId, mode, application }: Found): StoredClaim {
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
