import { StoreError } from '../../errors.ts';
import { errorText } from '../../util/error-text.ts';

/**
 * `end`: the server has ended or the session has, perhaps after the commit. `one`: one operation has
 * failed, and the others were undone with it. `again`: nothing was done, and the next attempt may
 * succeed. `tables`: they do not exist. `server`: it is not the one to write to. `denied`: this user
 * lacks a privilege.
 */
export type FailureKind = 'end' | 'one' | 'again' | 'tables' | 'server' | 'denied';

export interface FailureRules<Code extends string | number> {
  /** The product, for error texts. */
  readonly label: string;
  /** The code of an error that the server itself reported; `null` for any other error. */
  codeOf(error: unknown): Code | null;
  /** Which codes are of which kind. */
  readonly kinds: Readonly<Partial<Record<FailureKind, { has(code: Code): boolean }>>>;
  /** What a user can do about it, by code. */
  readonly hints: Readonly<Partial<Record<Code, string>>>;
}

/** The errors of a store whose statements are transactions of their own. */
export interface Failures {
  readonly label: string;
  /** `null`: of no kind, or not reported by the server. */
  kindOf(error: unknown): FailureKind | null;
  /**
   * The outcome of a failed statement is unknown, unless the server itself reported the failure: then
   * the statement had no effect.
   */
  failureOf(error: unknown): StoreError;
  /** A failure before any statement that counts was sent. The cause stays the library's error. */
  notBegun(error: unknown): StoreError;
  /** A statement that was never sent. */
  notSent(why: string): StoreError;
  unanswered(): StoreError;
}

export function failuresBy<Code extends string | number>(rules: FailureRules<Code>): Failures {
  const { label, codeOf, kinds, hints } = rules;
  const failureOf = (error: unknown): StoreError => {
    if (error instanceof StoreError) return error;
    const code = codeOf(error);
    const hint = code === null ? undefined : hints[code];
    const text = `${label}: ${errorText(error)}${hint === undefined ? '' : ` (${hint})`}`;
    const isUndone = code !== null && kinds.end?.has(code) !== true;
    return new StoreError(text, { cause: error, applied: isUndone ? 'no' : 'unknown' });
  };
  return {
    label,
    kindOf(error) {
      const code = codeOf(error instanceof StoreError ? error.cause : error);
      const all = Object.keys(kinds) as FailureKind[];
      return all.find((kind) => code !== null && kinds[kind]?.has(code)) ?? null;
    },
    failureOf,
    notBegun(error) {
      const { message, cause } = failureOf(error);
      return new StoreError(message, { cause, applied: 'no' });
    },
    notSent: (why) => new StoreError(`${label}: not sent: ${why}`, { applied: 'no' }),
    unanswered: () => new StoreError(`${label} did not answer within the time limit`, { applied: 'unknown' }),
  };
}
