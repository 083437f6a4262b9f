import type { Clock } from '../../../clock.ts';
import { UnsupportedError } from '../../../errors.ts';
import type { ClaimRef, StoredClaim } from '../../../store/store.ts';
import { usedName } from '../../../use.ts';
import { pause } from '../../../util/backoff.ts';
import { arrayOf, type Row } from '../connection.ts';
import type { Claim, Lock } from './lock.ts';
import { type KeyFinder, type LockKey, lockTag, lockTagOf, OURS } from './lock-key.ts';
import type { Sessions } from './sessions.ts';
import { CHANNEL, type LockMode } from './statement.ts';

/** How long other processes have to answer which claims they hold. */
const SHOW_MS = 300;
/** How long a holder's process has to release an evicted claim. */
const EVICT_MS = 2_000;
/** The id of a holder of another program: its server process. */
const FOREIGN = /^session (\d+)$/;
const SHOWN_MAX = 50;
/** A NOTIFY carries less than 8,000 bytes. */
const MESSAGE_BYTES_MAX = 7_900;

const SEND = `SELECT pg_backend_pid()::text, pg_notify($1::text, message)::text
FROM unnest($2::text::text[]) AS message`;

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
interface Peer {
  readonly sessionId: number;
  readonly mode: LockMode;
  readonly application: string | null;
  readonly holds: boolean;
  readonly isOurs: boolean;
}

/** What one session asks another by NOTIFY. `n`: the number of the question. */
interface Question {
  readonly n: number;
  readonly from: number;
  readonly ask: 'show' | 'evict';
  readonly key: string;
  readonly id: string;
}

/** One of the `of` parts of the answer of one session. */
interface Answer {
  readonly n: number;
  readonly of: number;
  readonly part: Part;
}

type Part = Readonly<Record<string, unknown>> | null;

interface InspectOptions {
  readonly clock: Clock;
  readonly sessions: Sessions;
  readonly keys: KeyFinder;
  readonly locks: ReadonlyMap<string, Lock>;
  evictHere(ref: ClaimRef): Promise<boolean>;
}

/** Shows the holders of a lock, and evicts one. Both ask the other processes by NOTIFY. */
export class Inspect {
  readonly #options: InspectOptions;
  /** What receives the answers, by the number of the question. */
  readonly #receivers = new Map<number, (answer: Answer) => void>();
  #count = 0;

  constructor(options: InspectOptions) {
    this.#options = options;
  }

  /** The holders only: the processes have no common queue. */
  async read(name: string): Promise<readonly StoredClaim[]> {
    const { key, peers, parts } = await this.#ask(name, 'show', '', SHOW_MS);
    const own = this.#options.locks.get(key.text)?.held ?? [];
    const silent = peers.filter(
      ({ sessionId, holds }) => holds && !parts.some((part) => part?.session === sessionId),
    );
    return [...own.map((claim) => this.#show(claim)), ...parts.flatMap(asStored), ...silent.map(foreign)];
  }

  /** Keys are hashes, so only the names of the locks that this process holds are known. */
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

  /** Rejects with `UnsupportedError` for another program: only its whole session could be ended. */
  async evict(ref: ClaimRef): Promise<boolean> {
    if (await this.#options.evictHere(ref)) return true;
    const { peers, parts } = await this.#ask(ref.name, 'evict', ref.id, EVICT_MS);
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

  /** Another session has sent this text to this one. */
  onMessage(text: string): void {
    const message = parse(text);
    if (message === null) return;
    if ('ask' in message) void this.#reply(message).catch(() => {});
    else this.#receivers.get(message.n)?.(message);
  }

  /**
   * Asks the other sessions that have the lock or wait for it. Resolves to these sessions, and to the
   * parts that have arrived when all of them have answered, or after `limitMs`.
   */
  async #ask(
    name: string,
    ask: Question['ask'],
    id: string,
    limitMs: number,
  ): Promise<{ key: LockKey; peers: readonly Peer[]; parts: readonly Part[] }> {
    const { clock, sessions, keys } = this.#options;
    const session = await sessions.current();
    const key = await keys.find(name, session);
    const n = this.#count++;
    const question: Question = { n, from: session.id, key: key.text, ask, id };
    const parts: Part[] = [];
    let answered = 0;
    let wanted = Number.POSITIVE_INFINITY;
    const done = new AbortController();
    // An answer may arrive before the reply to the statement that sent the question.
    this.#receivers.set(n, ({ of, part }) => {
      if (part !== null) parts.push(part);
      // Rounded up: three thirds may add up to a little less than one.
      answered += 1 / Math.max(of, 1) + 1e-9;
      if (answered >= wanted) done.abort();
    });
    try {
      const tags = [lockTag(key), lockTagOf(key.companion), lockTagOf(OURS)];
      const rows = await session.run({ text: LOOK, values: [...tags, JSON.stringify(question)] });
      const peers = rows.slice(1).map(asPeer);
      wanted = peers.filter(({ isOurs }) => isOurs).length;
      if (answered < wanted) await pause(clock, limitMs, { keepAlive: true, signal: done.signal });
      return { key, peers, parts };
    } finally {
      this.#receivers.delete(n);
    }
  }

  async #reply(question: Question): Promise<void> {
    const parts = await this.#answer(question);
    const all = parts.length === 0 ? [null] : parts;
    const messages = all.map((part) => fitting({ n: question.n, of: all.length, part }));
    const values = [`${CHANNEL}_${question.from}`, arrayOf(messages)];
    await this.#options.sessions.now?.run({ text: SEND, values });
  }

  async #answer({ ask, key, id }: Question): Promise<readonly Part[]> {
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

/** Leaves the note out when the message would be too long with it. */
function fitting(answer: Answer): string {
  const text = JSON.stringify(answer);
  if (Buffer.byteLength(text) <= MESSAGE_BYTES_MAX) return text;
  return JSON.stringify({ ...answer, part: { ...answer.part, note: null } });
}

/** Any session can notify any other. `null`: the text is no message of Holdfast. */
function parse(text: string): Question | Answer | null {
  try {
    const message = JSON.parse(text) as Record<string, unknown>;
    const isQuestion = ['show', 'evict'].includes(message.ask as string) && typeof message.key === 'string';
    const isMessage = Number.isSafeInteger(message.n) && (Number.isSafeInteger(message.of) || isQuestion);
    return isMessage ? (message as unknown as Question | Answer) : null;
  } catch {
    return null;
  }
}

function asPeer([, sessionId, exclusive, application, holds, ours]: Row): Peer {
  return {
    sessionId: Number(sessionId),
    mode: exclusive === 'true' ? 'exclusive' : 'shared',
    application: application === '' || application === undefined ? null : application,
    holds: holds === 'true',
    isOurs: ours === 'ours',
  };
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
function asStored(part: Part): StoredClaim[] {
  const { id, fence, heldForMs, note, mode } = part ?? {};
  const kind = (mode as { kind?: unknown } | undefined)?.kind;
  if (typeof id !== 'string' || (kind !== 'exclusive' && kind !== 'shared')) return [];
  if (typeof fence !== 'string' || !/^\d{1,19}$/.test(fence) || typeof heldForMs !== 'number') return [];
  const text = typeof note === 'string' ? note : null;
  return [
    { id, granted: true, mode: { kind }, fence: BigInt(fence), heldForMs, expiresInMs: null, note: text },
  ];
}
