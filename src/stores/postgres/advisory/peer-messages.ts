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

/** A NOTIFY carries less than 8,000 bytes. */
const MESSAGE_BYTES_MAX = 7_900;

const SEND = `SELECT pg_backend_pid()::text, pg_notify($1::text, message)::text
FROM unnest($2::text::text[]) AS message`;

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
   * `send` sends the message, and resolves to the number of sessions that it was sent to. Resolves to
   * the parts that have arrived when all of them have answered, or after `limitMs`.
   */
  async ask(
    message: { readonly from: number } & Question,
    limitMs: number,
    send: (text: string) => Promise<number>,
  ): Promise<readonly Answer['part'][]> {
    const n = this.#count++;
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
      wanted = await send(JSON.stringify({ n, ...message }));
      if (answered >= wanted) return parts;
      await new Promise<void>((resolve) => {
        // The timer keeps the process alive, because a caller waits.
        const timer = this.#clock.startTimer(limitMs, resolve, { keepAlive: true });
        onDone = () => {
          timer.cancel();
          resolve();
        };
      });
      return parts;
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
    const list = `{${messages.map((message) => `"${message.replace(/[\\"]/g, '\\$&')}"`).join()}}`;
    await session.run({ text: SEND, values: [`${CHANNEL}_${from}`, list] });
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
