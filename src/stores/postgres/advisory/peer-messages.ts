import type { Clock } from '../../../clock.ts';
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

/**
 * A question without all answers. It is registered before it is sent, because an answer may arrive
 * before the reply to the statement that sent it.
 */
export class PeerQuery {
  readonly message: string;
  readonly parts: Answer['part'][] = [];
  readonly end: () => void;
  /** How many sessions have answered completely. */
  #answered = 0;
  #wanted = Number.POSITIVE_INFINITY;
  #onDone: (() => void) | null = null;

  constructor(message: string, end: () => void) {
    this.message = message;
    this.end = end;
  }

  receive({ of, part }: Answer): void {
    if (part !== null) this.parts.push(part);
    // Three thirds must not add up to less than one.
    this.#answered += 1 / Math.max(of, 1) + 1e-9;
    if (this.#answered >= this.#wanted) this.#onDone?.();
  }

  /**
   * Resolves when this many sessions have answered, or after `limitMs`. The timer keeps the process
   * alive, because a caller waits.
   */
  async wait(sessions: number, clock: Clock, limitMs: number): Promise<void> {
    this.#wanted = sessions;
    if (this.#answered >= sessions) return;
    await new Promise<void>((resolve) => {
      const timer = clock.startTimer(limitMs, resolve, { keepAlive: true });
      this.#onDone = () => {
        timer.cancel();
        resolve();
      };
    });
  }
}

/** A NOTIFY carries less than 8,000 bytes. */
const MESSAGE_BYTES_MAX = 7_900;

const SEND = `SELECT pg_backend_pid()::text, pg_notify($1::text, message)::text
FROM unnest($2::text::text[]) AS message`;

/** Questions and answers between sessions of Holdfast, by NOTIFY. An answer may never come. */
export class PeerMessages {
  readonly #answer: (question: Question) => Promise<readonly Answer['part'][]>;
  readonly #queries = new Map<number, PeerQuery>();
  #count = 0;

  constructor(answer: (question: Question) => Promise<readonly Answer['part'][]>) {
    this.#answer = answer;
  }

  static channelOf(sessionId: number): string {
    return `${CHANNEL}_${sessionId}`;
  }

  begin(question: Question, session: Session): PeerQuery {
    const n = this.#count++;
    const message = JSON.stringify({ n, from: session.id, ...question });
    const query = new PeerQuery(message, () => this.#queries.delete(n));
    this.#queries.set(n, query);
    return query;
  }

  /** Handles a message to this session. */
  receive(text: string, session: Session): void {
    const message = parse(text);
    if (message === null) return;
    if ('ask' in message) void this.#reply(message, session).catch(() => {});
    else this.#queries.get(message.n)?.receive(message);
  }

  async #reply(
    { n, from, ...question }: { n: number; from: number } & Question,
    session: Session,
  ): Promise<void> {
    const parts = await this.#answer(question);
    const all = parts.length === 0 ? [null] : parts;
    const messages = all.map((part) => fitting({ n, of: all.length, part }));
    const list = `{${messages.map((message) => `"${message.replace(/[\\"]/g, '\\$&')}"`).join()}}`;
    await session.run({ text: SEND, values: [PeerMessages.channelOf(from), list] });
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
