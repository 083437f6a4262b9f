import type { Mutant } from './mutant.ts';

const ROWS = 'test/faults/core/in-process.test.ts';
const DOUBT = 'test/core/unknown-outcome.test.ts';
const HOLD = 'test/core/hold.test.ts';
const PROCESS_REF = 'test/core/process-ref.test.ts';

/** Mistakes in how long a hold is trusted, and in how it is renewed and released. */
export const HOLD_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'a pending call does not keep the process alive',
    symbol: 'ProcessRef.begin',
    replace: 'this.#calls += 1;',
    test: PROCESS_REF,
    by: 'acquire keeps the process alive while it is pending, and only then',
  },
  {
    mistake: 'only the monotonic clock counts, so a suspended host notices nothing',
    symbol: 'Deadline.remainingMs',
    replace: 'return this.end.monotonicMs - this.clock.monotonicMs();',
    test: ROWS,
    by: 'the wall clock set forward gives an early loss',
  },
  {
    mistake: 'only the wall clock counts, so setting it back makes holds longer',
    symbol: 'Deadline.remainingMs',
    replace: 'return this.end.wallMs - this.clock.wallMs();',
    test: ROWS,
    by: 'the wall clock set back changes nothing',
  },
  {
    mistake: 'one failed renewal is taken for a loss',
    symbol: 'Renewals.#onFailure',
    replace: "held.lose('expired');",
    test: HOLD,
    by: 'survives failed renewals',
  },
  {
    mistake: 'a failed renewal is never retried',
    symbol: 'Renewals.#onFailure',
    replace: '',
    test: HOLD,
    by: 'survives failed renewals',
  },
  {
    mistake: 'the answer that the claim is gone is ignored',
    symbol: 'Renewals.#onAnswer',
    find: "held.lose(outcome.how ?? (store.traits.lifetime === 'session' ? 'session' : 'taken'));",
    replace: '',
    test: HOLD,
    by: 'is lost when the store says that the claim is gone',
  },
  {
    mistake: 'clocks are assumed to run at the same speed',
    symbol: 'trustedMs',
    replace: 'return validForMs;',
    test: HOLD,
    by: 'its signal aborts before another can hold',
  },
  {
    mistake: 'a release whose reply was lost is reported as a loss',
    symbol: 'HeldClaim.#finish',
    find: 'const isGivenUp = found || (isUnanswered && this.#leftBehind === null);',
    replace: 'const isGivenUp = found;',
    test: HOLD,
    by: 'resolves to true when its reply was lost',
  },
  {
    mistake: 'the signal does not report a loss',
    symbol: 'HeldClaim.lose',
    find: 'this.#controller?.abort(error);',
    replace: '',
    test: HOLD,
    by: 'is lost by its own deadline',
  },
  {
    mistake: 'a hold may be kept for ever, whatever maxHoldMs says',
    symbol: 'HeldClaim.#untilCapMs',
    replace: 'return Number.POSITIVE_INFINITY;',
    test: HOLD,
    by: 'ends at maxHoldMs although renewals succeed',
  },
  {
    mistake: 'nothing acts on a deadline that has passed',
    symbol: 'HeldClaim.checkDeadline',
    find: 'this.lose(this.deadline.lossReason() ?? how);',
    replace: '',
    test: HOLD,
    by: 'is lost by its own deadline',
  },
  {
    mistake: 'a hold that is extended while it is renewed forgets which one was last',
    symbol: 'Renewals.extend',
    find: 'while (held.renewing !== null) {\n      await held.renewing;\n      held.assertHeld();\n    }',
    replace: '',
    test: HOLD,
    by: 'has one pending renewal at a time',
  },
  {
    mistake: 'an unanswered extension that may have shortened the lease is ignored',
    symbol: 'Deadline.onSent',
    find: 'if (this.#hasTtl) this.#unanswered = [...this.#unanswered, command];',
    replace: '',
    test: DOUBT,
    by: 'may have shortened the lease',
  },
  {
    mistake: 'a renewal that is stuck is forgotten once a later one was confirmed',
    symbol: 'Deadline.confirm',
    find: 'this.leastMs = Math.min(this.leastMs, ...earlier.map(({ ttlMs }) => ttlMs));',
    replace: '',
    test: DOUBT,
    by: 'may be executed after a later one was confirmed',
  },
  {
    mistake: 'an old answer overrules a newer one',
    symbol: 'Deadline.confirm',
    find: 'const isLast = sent.monotonicMs >= this.confirmed.sent.monotonicMs;',
    replace: 'const isLast = true;',
    test: DOUBT,
    by: 'does not undo later confirmations',
  },
  {
    mistake: 'after a suspended host wakes up, nothing is renewed and no deadline is checked',
    symbol: 'Renewals.#afterClockJump',
    replace: 'for (const held of this.holds) held.checkDeadline();',
    test: DOUBT,
    by: 'a hold that is still valid is renewed',
  },
  {
    mistake: 'renewals stop after the first that was due',
    symbol: 'Renewals.#onTimer',
    find: 'this.#timer.setBy(Math.min(held.dueAtMs, held.deadlineAtMs));',
    replace: '',
    test: HOLD,
    by: 'can be extended, and keeps the new TTL',
  },
];
