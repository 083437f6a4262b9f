import type { Mutant } from './mutant.ts';

const ROWS = 'test/faults/core/rows.test.ts';
const SIMULATION = 'test/simulation/interleavings.test.ts';
const ACQUIRE = 'test/core/acquire.test.ts';
const CAMPAIGN = 'test/core/campaign.test.ts';
const CLOSING = 'test/core/closing.test.ts';
const ELECTION = 'test/core/election.test.ts';
const LEFTOVERS = 'test/core/leftovers.test.ts';
const LOCKS = 'test/core/locks.test.ts';
const RUN = 'test/core/run.test.ts';

/** Mistakes in acquiring, in the primitives and in closing. */
export const CALL_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'a grant is believed however late its answer comes',
    file: 'src/hold/granted.ts',
    find: 'const remainingMs = trustedMs(outcome.validForMs) - elapsedMs(core.clock, sent);',
    replace:
      'sent = { monotonicMs: core.clock.monotonicMs(), wallMs: core.clock.wallMs() };\n  const remainingMs = outcome.validForMs;',
    test: SIMULATION,
    by: 'breaks a lock',
  },
  {
    mistake: 'an aborted wait leaves what it was granted to nobody',
    file: 'src/hold/attempt.ts',
    find: 'if (!ask.isStopped) return false;\n    this.#cleanUp();',
    replace: 'if (!ask.isStopped) return false;',
    test: ROWS,
    by: 'an abort at any instant around the grant',
  },
  {
    mistake: 'a release between the refusal and the listening is missed',
    file: 'src/hold/attempt.ts',
    find: 'Math.max(this.#leftMs, 1))));\n      return true;',
    replace: 'Math.max(this.#leftMs, 1))));\n      return false;',
    test: ACQUIRE,
    by: 'does not miss a release',
  },
  {
    mistake: 'a wait that timed out leaves its place in line',
    file: 'src/hold/attempt.ts',
    find: 'if (this.#mayStand) this.#cleanUp();',
    replace: '',
    test: ACQUIRE,
    by: 'leaves nothing in line after a time-out',
  },
  {
    mistake: 'locks are taken in the caller’s order, so two can wait for each other',
    file: 'src/primitives/all.ts',
    find: '[...new Set<string>(names)].sort(byBytes)',
    replace: '[...new Set<string>(names)]',
    test: CLOSING,
    by: 'takes the names in the order of their bytes',
  },
  {
    mistake: 'closing leaves those who wait waiting',
    file: 'src/core.ts',
    find: 'for (const closable of [...this.closables]) closable.onClose(new ClosedError());',
    replace: '',
    test: LOCKS,
    by: 'refuses new and waiting acquires',
  },
  {
    mistake: 'what fences were seen is forgotten',
    file: 'src/hold/granted.ts',
    find: 'if (outcome.fence > core.record.fenceSeen) core.record.fenceSeen = outcome.fence;',
    replace: '',
    test: LOCKS,
    by: 'keeps rising when the store has forgotten everything',
  },
  {
    mistake: 'a command without an answer is waited for for ever',
    file: 'src/hold/command.ts',
    find: 'command.isLate = true;',
    replace: 'continue;',
    test: ACQUIRE,
    by: 'gives every command a time limit',
  },
  {
    mistake: 'a failed release hides the function’s own error',
    file: 'src/hold/run.ts',
    find: 'await hold.release().catch((releaseError: unknown) => attach(error, releaseError));',
    replace: 'await hold.release();',
    test: RUN,
    by: 'throws the function’s own error',
  },
  {
    mistake: 'a candidate thinks that it leads until the store says otherwise',
    file: 'src/primitives/candidate.ts',
    find: '&& this.#grant.remainingMs() > 0;',
    replace: ';',
    test: ELECTION,
    by: 'turns isLeader false the instant its time is over',
  },
  {
    mistake: 'an observer believes a stale replica and goes back to an earlier term',
    file: 'src/primitives/observe.ts',
    find: 'if (fence >= term && ',
    replace: 'if (',
    test: ELECTION,
    by: 'observers never go back to a term',
  },
  {
    mistake: 'what was granted after we had given up is left to run out',
    file: 'src/hold/attempt.ts',
    find: 'if (this.#abandoned) this.#cleanUp();\n    else',
    replace: 'if (!this.#abandoned)',
    test: SIMULATION,
    by: 'breaks a lock',
  },
  {
    mistake: 'closing does not wait for what is under way',
    file: 'src/locks.ts',
    find: 'await this.#until(() => !core.isBusy, DEFAULTS.commandMs);',
    replace: '',
    test: LOCKS,
    by: 'gives back a claim that was granted while it closed',
  },
  {
    mistake: 'a term begins while the last one of the same process still runs',
    file: 'src/primitives/candidate.ts',
    find: 'if (failure === null) {\n        await work;',
    replace: 'if (failure === null) {',
    test: CAMPAIGN,
    by: 'does not begin a second term before the first has ended',
  },
  {
    mistake: 'several locks are taken in an order of JavaScript’s own',
    file: 'src/primitives/all.ts',
    find: 'return Buffer.compare(Buffer.from(a), Buffer.from(b));',
    replace: 'return a < b ? -1 : a > b ? 1 : 0;',
    test: CLOSING,
    by: 'takes the names in the order of their bytes',
  },
  {
    mistake: 'a watch is kept when the wait is over',
    file: 'src/hold/attempt.ts',
    find: 'this.core.endWork();\n    this.#wait?.end();\n    this.#stopWatching();',
    replace: 'this.core.endWork();\n    this.#wait?.end();',
    test: LEFTOVERS,
    by: 'of a wait that was granted, timed out or aborted',
  },
  {
    mistake: 'a finished once is remembered no longer than a hold lives',
    file: 'src/primitives/once.ts',
    find: '() => grant.leaveBehind(rememberMs, DONE)',
    replace: '() => grant.leaveBehind(grant.ttlMs, DONE)',
    test: LEFTOVERS,
    by: 'is remembered for as long as it was told',
  },
];
