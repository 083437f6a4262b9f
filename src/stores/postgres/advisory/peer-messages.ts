import type { Clock } from '../../../clock.ts';
import { arrayOf } from '../array.ts';
import type { Row } from '../driver-connection.ts';
import { type LockKey, lockTag, lockTagOf, OURS } from './key-parameters.ts';
import type { Session } from './session.ts';
import { CHANNEL } from './statement.ts';

/** What one session asks another by NOTIFY. */
export interface Question {
  readonly ask: 'show' | 'evict';
  readonly key: string;
  readonly id: string;
}

/** One part of the answer of one session. */
export interface Answer {
  /** How many parts the answer has. */
  readonly of: number;
  readonly part: Readonly<Record<string, unknown>> | null;
}

type Message = ({ readonly n: number; readonly from: number } & Question) | ({ readonly n: number } & Answer);

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
export interface Peer {
  readonly sessionId: number;
  readonly mode: 'exclusive' | 'shared';
  readonly application: string | null;
  readonly holds: boolean;
  readonly isOurs: boolean;
}

/** Questions and answers between sessions of Holdfast, by NOTIFY. An answer may never come. */
export class PeerMessages {
  readonly #clock: Clock;
  readonly #answer: (question: Question) => Promise<readonly Answer['part'][]>;
  /** What receives the answers, by the number of the question. */
  readonly #receivers = new Map<number, (answer: Answer) => void>();
  #count = 0;

  constructor(clock: Clock, answer: (question: Question) => Promise<readonly Answer['part'][]>) {
    this.#clock = clock;
    this.#answer = answer;
  }

  /**
   * Asks the other sessions that have the lock or wait for it. Resolves to these sessions, and to the
   * parts that have arrived when all of them have answered, or after `limitMs`.
   */
  async ask(
    session: Session,
    key: LockKey,
    about: Pick<Question, 'ask' | 'id'>,
    limitMs: number,
  ): Promise<{ peers: readonly Peer[]; parts: readonly Answer['part'][] }> {
    const n = this.#count++;
    const message = JSON.stringify({ n, from: session.id, key: key.text, ...about });
    const parts: Answer['part'][] = [];
    let answered = 0;
    let wanted = Number.POSITIVE_INFINITY;
    let onDone = (): void => {};
    // An answer may arrive before the reply to the statement that sent the question.
    this.#receivers.set(n, ({ of, part }) => {
      if (part !== null) parts.push(part);
      // Three thirds must not add up to less than one.
      answered += 1 / Math.max(of, 1) + 1e-9;
      if (answered >= wanted) onDone();
    });
    try {
      const tags = [lockTag(key), lockTagOf(key.companion), lockTagOf(OURS)];
      const rows = await session.run({ text: LOOK, values: [...tags, message] });
      const peers = rows.slice(1).map(asPeer);
      wanted = peers.filter(({ isOurs }) => isOurs).length;
      if (answered < wanted)
        await new Promise<void>((resolve) => {
          // The timer keeps the process alive, because a caller waits.
          const timer = this.#clock.startTimer(limitMs, resolve, { keepAlive: true });
          onDone = () => {
            timer.cancel();
            resolve();
          };
        });
      return { peers, parts };
    } finally {
      this.#receivers.delete(n);
    }
  }

  /** Handles a message to this session. */
  receive(text: string, session: Session): void {
    const message = parse(text);
    if (message === null) return;
    if ('ask' in message) void this.#reply(message, session).catch(() => {});
    else this.#receivers.get(message.n)?.(message);
  }

  async #reply(
    { n, from, ...question }: { n: number; from: number } & Question,
    session: Session,
  ): Promise<void> {
    const parts = await this.#answer(question);
    const all = parts.length === 0 ? [null] : parts;
    const messages = all.map((part) => fitting({ n, of: all.length, part }));
    await session.run({ text: SEND, values: [`${CHANNEL}_${from}`, arrayOf(messages)] });
  }
}

/** Leaves the note out when the message would be too long with it. */
function fitting(answer: { readonly n: number } & Answer): string {
  const text = JSON.stringify(answer);
  if (Buffer.byteLength(text) <= MESSAGE_BYTES_MAX) return text;
  return JSON.stringify({ ...answer, part: { ...answer.part, note: null } });
}

/**
 * Any session can notify any other, so a message can be any text. `null` when it is not of Holdfast.
 */
function parse(text: string): Message | null {
  try {
    const message = JSON.parse(text) as Record<string, unknown>;
    const isQuestion = ['show', 'evict'].includes(message.ask as string) && typeof message.key === 'string';
    const isMessage = Number.isSafeInteger(message.n) && (Number.isSafeInteger(message.of) || isQuestion);
    return isMessage ? (message as unknown as Message) : null;
  } catch {
    return null;
  }
}

function asPeer([, sessionId, exclusive, application, holds, ours]: Row): Peer {
  const mode = exclusive === 'true' ? 'exclusive' : 'shared';
  return {
    sessionId: Number(sessionId),
    mode,
    application: application === '' || application === undefined ? null : application,
    holds: holds === 'true',
    isOurs: ours === 'ours',
  };
}
