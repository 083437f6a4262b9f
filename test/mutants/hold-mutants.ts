import type { Mutant } from './mutant.ts';

const CORE = ['test/core'];
const ROWS = ['test/faults/core/rows.test.ts'];

/** Mistakes in how long a hold is trusted and how it is kept. */
export const HOLD_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'time is told by the monotonic clock alone, so a host that slept notices nothing',
    file: 'src/hold/validity.ts',
    find: 'return Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs);',
    replace: 'return clock.monotonicMs() - since.monotonicMs;',
    tests: ROWS,
  },
  {
    mistake: 'time is told by the wall clock alone, so setting it back makes holds longer',
    file: 'src/hold/validity.ts',
    find: 'return Math.max(clock.monotonicMs() - since.monotonicMs, clock.wallMs() - since.wallMs);',
    replace: 'return clock.wallMs() - since.wallMs;',
    tests: ROWS,
  },
  {
    mistake: 'one failed renewal is taken for a loss',
    file: 'src/hold/keepalive.ts',
    find: "this.#core.emit('renewFailed', grant.ref, { error, remainingMs });",
    replace: "this.#core.emit('renewFailed', grant.ref, { error, remainingMs });\n    grant.lose('expired');",
    tests: CORE,
  },
  {
    mistake: 'a failed renewal is never tried again',
    file: 'src/hold/keepalive.ts',
    find: 'this.#retryAfter(grant, delayMs);',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'the store’s word that the claim is gone is ignored',
    file: 'src/hold/keepalive.ts',
    find: "grant.lose(this.#core.store.traits.lifetime === 'session' ? 'session' : 'taken');\n      return;",
    replace: 'return;',
    tests: CORE,
  },
  {
    mistake: 'clocks are taken to run at the same speed',
    file: 'src/hold/validity.ts',
    find: 'return validForMs - Math.min(driftMs, validForMs / 2);',
    replace: 'return validForMs - Math.min(driftMs, 0);',
    tests: CORE,
  },
  {
    mistake: 'a release whose reply was lost is reported as a loss',
    file: 'src/hold/grant.ts',
    find: 'const given = found || (unknown && this.#keepsake === null);',
    replace: 'const given = found;',
    tests: CORE,
  },
  {
    mistake: 'the signal does not tell of a loss',
    file: 'src/hold/grant.ts',
    find: `    this.#end();
    this.#controller?.abort(error);`,
    replace: '    this.#end();',
    tests: CORE,
  },
  {
    mistake: 'a hold may be kept for ever whatever maxHoldMs says',
    file: 'src/hold/grant.ts',
    find: 'this.#maxHoldMs = settings.maxHoldMs;',
    replace: 'this.#maxHoldMs = Number.POSITIVE_INFINITY;',
    tests: CORE,
  },
  {
    mistake: 'a lost hold comes back when a late confirmation arrives',
    file: 'src/hold/grant.ts',
    find: "this.lose(this.#isSession && capped > 0 ? 'session' : 'expired');",
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'a hold that is extended while it is renewed forgets which came last',
    file: 'src/hold/keepalive.ts',
    find: 'while (grant.renewing !== null) await grant.renewing;',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'an extension that may have shortened the lease is not held against it',
    file: 'src/hold/trust.ts',
    find: 'remaining = Math.min(remaining, trustedMs(ttlMs) - elapsedMs(this.#clock, sent));',
    replace: 'void [sent, ttlMs];',
    tests: CORE,
  },
  {
    mistake: 'a renewal that is stuck is forgotten once a later one was confirmed',
    file: 'src/hold/trust.ts',
    find: 'this.suspect(doubt.ttlMs);',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'an old answer overrules a newer one',
    file: 'src/hold/trust.ts',
    find: 'if (sent.monotonicMs < this.#sent.monotonicMs) return false;',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'after a host has slept nothing is renewed and no deadline is set anew',
    file: 'src/hold/keepalive.ts',
    find: 'if (movedMs > JUMP_MS) this.#afterJump();',
    replace: 'if (movedMs > JUMP_MS) for (const grant of [...this.#core.grants.all]) grant.remainingMs();',
    tests: CORE,
  },
  {
    mistake: 'renewals stop after the first that was due',
    file: 'src/hold/keepalive.ts',
    find: 'this.#wakeAt(nextMs);',
    replace: '',
    tests: CORE,
  },
];
