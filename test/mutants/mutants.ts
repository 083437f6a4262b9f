/**
 * Deliberate mistakes, each of them one that a lock library has really made or could easily make. The suite must catch every one of them: it is only as good as what it notices.
 */
export interface Mutant {
  /** The mistake, in words. */
  readonly mistake: string;
  readonly file: string;
  /** Stands exactly once in the file. */
  readonly find: string;
  readonly replace: string;
  /** The part of the suite that must notice. */
  readonly tests: readonly string[];
}

const CONTRACT = ['test/conformance/memory.test.ts'];
const CORE = ['test/core'];
const ROWS = ['test/faults/core/rows.test.ts'];
const SIMULATION = ['test/simulation'];
const MEMORY = 'src/stores/memory/memory-store.ts';
const LINE = 'src/stores/memory/line.ts';

export const STORE_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'release frees whoever holds the lock, without comparing the id',
    file: MEMORY,
    find: `const claim = line?.claims.get(ref.id);
    if (line === undefined || claim === undefined) return false;
    line.remove(claim);`,
    replace: `const claim = line?.claims.get(ref.id) ?? (line && [...line.held][0]);
    if (line === undefined || claim === undefined) return false;
    line.remove(claim);`,
    tests: CONTRACT,
  },
  {
    mistake: 'a newcomer that fits overtakes those who wait',
    file: LINE,
    find: 'return this.#first === null && fits(this.#weight, mode);',
    replace: 'return fits(this.#weight, mode);',
    tests: CONTRACT,
  },
  {
    mistake: 'renewing a place in line makes it a hold',
    file: MEMORY,
    find: 'claim === undefined || claim.fence === null) return { held: false };',
    replace: 'claim === undefined) return { held: false };',
    tests: CONTRACT,
  },
  {
    mistake: 'two grants get the same fence',
    file: MEMORY,
    find: 'fence = this.#lastFence + 1n;',
    replace: 'fence = this.#lastFence;',
    tests: CONTRACT,
  },
  {
    mistake: 'the fence ignores what the caller has seen',
    file: MEMORY,
    find: 'if (fence <= fenceAbove) fence = fenceAbove + 1n;',
    replace: '',
    tests: CONTRACT,
  },
  {
    mistake: 'a hold never runs out',
    file: LINE,
    find: 'if (nowMs >= this.#heldUntilMs) this.#heldUntilMs = this.#expireAll(this.held, nowMs);',
    replace: '',
    tests: CONTRACT,
  },
  {
    mistake: 'a holder whose reply was lost is told that the lock is held',
    file: MEMORY,
    find: `if (claim.fence !== null) {
      line.renew`,
    replace: `if (claim.fence !== null) {
      if (claim.ttlMs > 0) return { granted: false, retryAfterMs: null };
      line.renew`,
    tests: CONTRACT,
  },
  {
    mistake: 'nobody is woken by a release',
    file: MEMORY,
    find: 'this.#watchers.tellClaim(claim.id);',
    replace: '',
    tests: CONTRACT,
  },
  {
    mistake: 'everybody is woken by a release',
    file: MEMORY,
    find: 'this.#watchers.tellClaim(claim.id);',
    replace: 'for (const each of line.claims.keys()) this.#watchers.tellClaim(each);',
    tests: CONTRACT,
  },
  {
    mistake: 'what a released hold weighed is never given back',
    file: LINE,
    find: 'this.#weight -= weightOf(claim.mode);',
    replace: '',
    tests: CONTRACT,
  },
  {
    mistake: 'who did not want to wait stands in line all the same',
    file: MEMORY,
    find: 'if (!request.wait) return this.#refuse(request.name, line, null, now);',
    replace: '',
    tests: CONTRACT,
  },
  {
    mistake: 'the line has no bound',
    file: MEMORY,
    find: 'if (line.waiting >= this.#lineMax) throw',
    replace: 'if (line.waiting < 0) throw',
    tests: CONTRACT,
  },
  {
    mistake: 'a mutex and a semaphore share a name unnoticed',
    file: MEMORY,
    find: 'if (present !== null) throw new ModeMismatchError(request.name, request.mode, present);',
    replace: '',
    tests: CONTRACT,
  },
  {
    mistake: 'a dead waiter keeps its place for ever',
    file: LINE,
    find: 'if (nowMs >= this.#waitUntilMs) this.#waitUntilMs = this.#expireAll(this.#places(), nowMs);',
    replace: '',
    tests: CONTRACT,
  },
  {
    mistake: 'asking again does not keep the place in line',
    file: MEMORY,
    find: 'line.keepPlace(claim, now);\n    return',
    replace: 'return',
    tests: CORE,
  },
];

export const CORE_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'a grant is believed however late its answer comes',
    file: 'src/hold/grant.ts',
    find: 'if (elapsedMs(core.clock, sent) >= trustedMs(outcome.validForMs)) return null;',
    replace: 'sent = { monotonicMs: core.clock.monotonicMs(), wallMs: core.clock.wallMs() };',
    tests: SIMULATION,
  },
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
    find: 'const remainingMs = grant.remainingMs();\n    if (remainingMs === 0) return;\n    const { events, owner, clock } = this.#core;',
    replace:
      "grant.lose('expired');\n    const remainingMs = grant.remainingMs();\n    if (remainingMs === 0) return;\n    const { events, owner, clock } = this.#core;",
    tests: CORE,
  },
  {
    mistake: 'a failed renewal is never tried again',
    file: 'src/hold/keepalive.ts',
    find: 'clock.startTimer(delayMs, () => this.#renewDue(grant));',
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
    mistake: 'an aborted wait leaves what it was granted to nobody',
    file: 'src/hold/acquire.ts',
    find: 'this.#core.background(claim.then(cleanUpNow, cleanUpNow));',
    replace: 'void cleanUpNow;',
    tests: ROWS,
  },
  {
    mistake: 'a release between the refusal and the listening is missed',
    file: 'src/hold/acquire.ts',
    find: 'Math.max(this.#leftMs, 1))));\n      return true;',
    replace: 'Math.max(this.#leftMs, 1))));\n      return false;',
    tests: CORE,
  },
  {
    mistake: 'a wait that timed out leaves its place in line',
    file: 'src/hold/acquire.ts',
    find: 'if (this.#mayStand) cleanUp(',
    replace: 'if (this.#mayStand && this.#failures > 100) cleanUp(',
    tests: CORE,
  },
  {
    mistake: 'clocks are taken to run at the same speed',
    file: 'src/hold/validity.ts',
    find: 'return validForMs - validForMs * DEFAULTS.driftShare - DEFAULTS.driftMs;',
    replace: 'return validForMs;',
    tests: CORE,
  },
  {
    mistake: 'a release whose reply was lost is reported as a loss',
    file: 'src/hold/grant.ts',
    find: 'return done || (unknown && farewell.goneIsDone);',
    replace: 'return done;',
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
    mistake: 'locks are taken in the caller’s order, so two can wait for each other',
    file: 'src/primitives/all.ts',
    find: '[...new Set<string>(names)].sort(byBytes)',
    replace: '[...new Set<string>(names)]',
    tests: CORE,
  },
  {
    mistake: 'closing leaves those who wait waiting',
    file: 'src/core.ts',
    find: 'for (const closable of [...this.closables]) closable.onClose(new ClosedError());',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'what fences were seen is forgotten',
    file: 'src/core.ts',
    find: 'if (fence > this.#record.fenceSeen) this.#record.fenceSeen = fence;',
    replace: 'void fence;',
    tests: CORE,
  },
  {
    mistake: 'a hold may be kept for ever whatever maxHoldMs says',
    file: 'src/hold/grant.ts',
    find: 'this.capMs = settings.maxHoldMs;',
    replace: 'this.capMs = Number.POSITIVE_INFINITY;',
    tests: CORE,
  },
  {
    mistake: 'a command without an answer is waited for for ever',
    file: 'src/hold/command.ts',
    find: 'for (const pending of batch.pending) pending.giveUp(error);',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'a failed release hides the function’s own error',
    file: 'src/hold/run.ts',
    find: 'await hold.release().catch((releaseError: unknown) => attach(error, releaseError));',
    replace: 'await hold.release();',
    tests: CORE,
  },
  {
    mistake: 'a lost hold comes back when a late confirmation arrives',
    file: 'src/hold/grant.ts',
    find: "    if (remaining > 0) return remaining;\n    this.lose(this.#isSession ? 'session' : 'expired');\n    return 0;",
    replace: '    return Math.max(remaining, 0);',
    tests: CORE,
  },
  {
    mistake: 'a candidate thinks that it leads until the store says otherwise',
    file: 'src/primitives/candidate.ts',
    find: '&& this.#grant.remainingMs() > 0;',
    replace: ';',
    tests: CORE,
  },
  {
    mistake: 'an observer believes a stale replica and goes back to an earlier term',
    file: 'src/primitives/observe.ts',
    find: 'if (fence >= term && ',
    replace: 'if (',
    tests: CORE,
  },
  {
    mistake: 'a hold that is extended while it is renewed forgets which came last',
    file: 'src/hold/keepalive.ts',
    find: 'while (grant.renewing !== null) await grant.renewing;',
    replace: '',
    tests: CORE,
  },
];
