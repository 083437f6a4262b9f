import {
  type Applied,
  ClosedError,
  InvalidArgumentError,
  ModeMismatchError,
  QueueFullError,
  QuorumError,
  StoreError,
  UnsupportedError,
  type Vote,
} from '../errors.ts';
import type { Mode } from '../store/store.ts';
import { codeOf } from '../util/error-code.ts';

/**
 * An error as a message carries it: the structured clone of an error drops its class, its code and
 * every other field.
 */
export interface PlainError {
  readonly name: string;
  readonly message: string;
  readonly code: string;
  readonly stack: string | undefined;
  readonly cause: PlainError | null;
  /** Of an error of this package: its own fields. */
  readonly fields: Readonly<Record<string, unknown>>;
}

const FIELDS = ['applied', 'lock', 'queueMax', 'asked', 'present', 'argument'] as const;

/** Causes of causes are cut off here. */
const DEPTH_MAX = 3;

export function plainError(error: unknown, depth = 0): PlainError {
  if (!(error instanceof Error)) {
    return { name: 'Error', message: String(error), code: '', stack: undefined, cause: null, fields: {} };
  }
  const { name, message, stack, cause } = error;
  const own = error as unknown as Record<string, unknown>;
  const fields: Record<string, unknown> = {};
  for (const field of FIELDS) if (own[field] !== undefined) fields[field] = own[field];
  if (error instanceof QuorumError) fields.votes = error.votes.map((vote) => plainVote(vote, depth));
  const code = own.code === undefined ? '' : codeOf(error);
  const hasCause = cause !== undefined && depth < DEPTH_MAX;
  return { name, message, code, stack, cause: hasCause ? plainError(cause, depth + 1) : null, fields };
}

function plainVote(vote: Vote, depth: number): Vote {
  return vote.error === undefined ? vote : { ...vote, error: plainError(vote.error, depth + 1) };
}

/** The error again, of the class that its code names. */
export function errorFrom(plain: PlainError): Error {
  const { message, code, stack, fields } = plain;
  const cause = plain.cause === null ? undefined : errorFrom(plain.cause);
  const error = make(message, code, fields, cause);
  error.message = message;
  if (stack !== undefined) error.stack = stack;
  if (error.constructor !== Error) return error;
  Object.defineProperty(error, 'name', { value: plain.name, configurable: true, writable: true });
  return code === '' ? error : Object.assign(error, { code });
}

function make(message: string, code: string, fields: PlainError['fields'], cause: unknown): Error {
  const field = <T>(name: string): T => fields[name] as T;
  switch (code) {
    case 'STORE':
      return new StoreError(message, { cause, applied: field<Applied>('applied') });
    case 'QUORUM':
      return new QuorumError(message, votesFrom(field('votes')), field<Applied>('applied'));
    case 'QUEUE_FULL':
      return new QueueFullError(field('lock'), field('queueMax'));
    case 'MODE_MISMATCH':
      return new ModeMismatchError(field('lock'), field<Mode>('asked'), field<Mode>('present'));
    case 'UNSUPPORTED':
      return new UnsupportedError(message);
    case 'INVALID_ARGUMENT':
      return new InvalidArgumentError(field('argument'), message);
    case 'CLOSED':
      return new ClosedError(message);
    default:
      return new Error(message, cause === undefined ? undefined : { cause });
  }
}

function votesFrom(votes: readonly Vote[]): readonly Vote[] {
  return votes.map((vote) =>
    vote.error === undefined ? vote : { ...vote, error: errorFrom(vote.error as PlainError) },
  );
}
