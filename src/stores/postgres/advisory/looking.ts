import { UnsupportedError } from '../../../errors.ts';
import type { ClaimRef, StoredClaim } from '../../../store/store.ts';
import type { Row } from '../wire.ts';
import type { Asking, Parts } from './asking.ts';
import type { Claim } from './claim.ts';
import { type LockKey, OURS, placeOf } from './lock-key.ts';
import { type Answer, Mail, type Question } from './mail.ts';
import type { Session } from './session.ts';

/** How long others have to tell what they know of a lock. */
const SHOW_MS = 300;
/** How long a holder has to give a lock up. */
const EVICT_MS = 2_000;
/** A holder that is another program's is known by its process. */
const FOREIGN = /^session (\d+)$/;
const SHOWN_MAX = 50;

/** Who has the lock, or waits for it, in sessions other than ours; those of our kind are sent the letter on the way. The first row is for us alone. */
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

interface Found {
  readonly sessionId: number;
  readonly mode: 'exclusive' | 'shared';
  readonly application: string | null;
  readonly holds: boolean;
  readonly isOurs: boolean;
}

/** Looking at a lock that others hold, and taking it away from them: both by asking their processes. */
export class Looking {
  readonly #parts: Parts;
  readonly #asking: Asking;
  readonly mail: Mail;

  constructor(parts: Parts, asking: Asking) {
    this.#parts = parts;
    this.#asking = asking;
    this.mail = new Mail((question) => this.#answer(question));
  }

  /** Holders only: there is no common line to show. */
  async read(name: string): Promise<readonly StoredClaim[]> {
    const { sessions, table } = this.#parts;
    const session = await sessions.current(null);
    const key = await this.#keyOf(name, session);
    const { found, parts } = await this.#askOthers(
      { ask: 'show', key: key.text, id: '' },
      key,
      session,
      SHOW_MS,
    );
    const own = [...(table.get(key.text)?.users.values() ?? [])].filter((claim) => claim.fence !== null);
    const told = parts.flatMap((part) => asStored(part));
    const silent = found.filter(
      ({ sessionId, holds }) => holds && !parts.some((part) => part?.session === sessionId),
    );
    return [...own.map((claim) => this.#show(claim)), ...told, ...silent.map(foreign)];
  }

  /** Rejects with `UnsupportedError` for a holder that is not ours: its session may hold more than this one lock. */
  async evict(ref: ClaimRef): Promise<boolean> {
    const { sessions } = this.#parts;
    const session = await sessions.current(null);
    if (await this.#evictOwn(ref)) return true;
    const key = await this.#keyOf(ref.name, session);
    const question = { ask: 'evict', key: key.text, id: ref.id } as const;
    const { found, parts } = await this.#askOthers(question, key, session, EVICT_MS);
    if (parts.some((part) => part?.evicted === true)) return true;
    const sessionId = Number(FOREIGN.exec(ref.id)?.[1] ?? 0);
    if (found.some((each) => each.sessionId === sessionId && each.holds)) {
      throw new UnsupportedError(
        `Session ${sessionId} is not of Holdfast, and PostgreSQL cannot take one lock from it. SELECT pg_terminate_backend(${sessionId}) ends it with everything it holds`,
      );
    }
    return false;
  }

  async #evictOwn(ref: ClaimRef): Promise<boolean> {
    if (!(await this.#asking.release(ref))) return false;
    this.#parts.watchers.tellClaim(ref.id);
    return true;
  }

  async #keyOf(name: string, session: Session): Promise<LockKey> {
    const { keys } = this.#parts;
    return keys.known(name, session) ?? (await keys.find(name, session));
  }

  async #askOthers(
    question: Question,
    key: LockKey,
    session: Session,
    limitMs: number,
  ): Promise<{ found: readonly Found[]; parts: readonly Answer['part'][] }> {
    const inquiry = this.mail.begin(question, session);
    try {
      const places = [placeOf(key), placeOf({ ...key, key: key.line }), placeOf({ ...key, key: OURS })];
      const rows = await session.queue.run({ text: LOOK, values: [...places, inquiry.letter] });
      const found = rows.slice(1).map(asFound);
      await inquiry.wait(found.filter((each) => each.isOurs).length, this.#parts.clock, limitMs);
      return { found, parts: inquiry.parts };
    } finally {
      inquiry.end();
    }
  }

  /** What this process says to a question from another. */
  async #answer({ ask, key, id }: Question): Promise<readonly Answer['part'][]> {
    const lock = this.#parts.table.get(key);
    if (lock === undefined) return [];
    const session = lock.session.id;
    if (ask === 'show') {
      const held = [...lock.users.values()].filter((claim) => claim.fence !== null);
      return held.slice(0, SHOWN_MAX).map((claim) => {
        const { fence, ...shown } = this.#show(claim);
        return { ...shown, fence: String(fence), session };
      });
    }
    const claim = lock.users.get(id) ?? lock.line.get(id);
    return claim !== undefined && (await this.#evictOwn(claim)) ? [{ evicted: true, session }] : [];
  }

  #show({ id, mode, fence, grantedAtMs, note }: Claim): StoredClaim {
    const heldForMs = this.#parts.clock.monotonicMs() - grantedAtMs;
    return { id, granted: true, mode: { kind: mode }, fence, heldForMs, expiresInMs: null, note };
  }
}

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

/** All that the server can say of it. */
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

/** Another process has said so: believed only as far as it has the right form. */
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
