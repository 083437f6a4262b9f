import type { Clock } from '../../../clock.ts';
import type { Session } from './session.ts';
import { CHANNEL } from './statement.ts';

/** What one session asks another by NOTIFY. */
export interface Question {
  readonly ask: 'show' | 'evict';
  readonly key: string;
  readonly id: string;
}

/** One part of an answer. */
export interface Answer {
  /** How many parts there are. */
  readonly of: number;
  readonly part: Readonly<Record<string, unknown>> | null;
}

type Letter = ({ readonly n: number; readonly from: number } & Question) | ({ readonly n: number } & Answer);

/** A question under way. It is known before it is sent: the first answers may come together with the word that it was sent. */
export class Inquiry {
  readonly letter: string;
  readonly parts: Answer['part'][] = [];
  /** How many sessions have said all. */
  #said = 0;
  #wanted = Number.POSITIVE_INFINITY;
  #done: (() => void) | null = null;
  /** Whoever began it ends it. */
  readonly end: () => void;

  constructor(letter: string, end: () => void) {
    this.letter = letter;
    this.end = end;
  }

  hear({ of, part }: Answer): void {
    if (part !== null) this.parts.push(part);
    // A third of a third of a third is not one.
    this.#said += 1 / Math.max(of, 1) + 1e-9;
    if (this.#said >= this.#wanted) this.#done?.();
  }

  /** Until so many sessions have answered, or the time is over. */
  async wait(sessions: number, clock: Clock, limitMs: number): Promise<void> {
    this.#wanted = sessions;
    if (this.#said >= sessions) return;
    await new Promise<void>((resolve) => {
      const timer = clock.startTimer(limitMs, resolve);
      this.#done = () => {
        timer.cancel();
        resolve();
      };
    });
  }
}

/** A NOTIFY carries less than 8,000 bytes. */
const LETTER_BYTES_MAX = 7_900;

const SEND = `SELECT pg_backend_pid()::text, pg_notify($1::text, letter)::text FROM unnest($2::text::text[]) AS letter`;

/** Questions between sessions of ours. Nobody has to answer. */
export class Mail {
  readonly #answer: (question: Question) => Promise<readonly Answer['part'][]>;
  readonly #asked = new Map<number, Inquiry>();
  #count = 0;

  constructor(answer: (question: Question) => Promise<readonly Answer['part'][]>) {
    this.#answer = answer;
  }

  static channelOf(sessionId: number): string {
    return `${CHANNEL}_${sessionId}`;
  }

  begin(question: Question, session: Session): Inquiry {
    const n = this.#count++;
    const letter = JSON.stringify({ n, from: session.id, ...question });
    const inquiry = new Inquiry(letter, () => this.#asked.delete(n));
    this.#asked.set(n, inquiry);
    return inquiry;
  }

  /** A letter to this session has come. */
  receive(text: string, session: Session): void {
    const letter = parse(text);
    if (letter === null) return;
    if ('ask' in letter) void this.#reply(letter, session).catch(() => {});
    else this.#asked.get(letter.n)?.hear(letter);
  }

  async #reply(
    { n, from, ...question }: { n: number; from: number } & Question,
    session: Session,
  ): Promise<void> {
    const parts = await this.#answer(question);
    const all = parts.length === 0 ? [null] : parts;
    const letters = all.map((part) => fitting({ n, of: all.length, part }));
    const list = `{${letters.map((letter) => `"${letter.replace(/[\\"]/g, '\\$&')}"`).join()}}`;
    await session.queue.run({ text: SEND, values: [Mail.channelOf(from), list] });
  }
}

/** Without its note if it is too long with it. */
function fitting(answer: { readonly n: number } & Answer): string {
  const text = JSON.stringify(answer);
  if (Buffer.byteLength(text) <= LETTER_BYTES_MAX) return text;
  return JSON.stringify({ ...answer, part: { ...answer.part, note: null } });
}

/** Anybody can notify anybody: what is not a letter of ours is nothing. */
function parse(text: string): Letter | null {
  try {
    const letter = JSON.parse(text) as Record<string, unknown>;
    const isQuestion = ['show', 'evict'].includes(letter.ask as string) && typeof letter.key === 'string';
    const isLetter = Number.isSafeInteger(letter.n) && (Number.isSafeInteger(letter.of) || isQuestion);
    return isLetter ? (letter as unknown as Letter) : null;
  } catch {
    return null;
  }
}
