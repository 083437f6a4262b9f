import type { Mutant } from './mutant.ts';

const CORE = ['test/core'];
const ROWS = ['test/faults/core/rows.test.ts'];
const SIMULATION = ['test/simulation'];

/** Mistakes in acquiring, in the primitives and in closing. */
export const CALL_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'a grant is believed however late its answer comes',
    file: 'src/hold/granted.ts',
    find: 'const remainingMs = trustedMs(outcome.validForMs) - elapsedMs(core.clock, sent);',
    replace:
      'sent = { monotonicMs: core.clock.monotonicMs(), wallMs: core.clock.wallMs() };\n  const remainingMs = outcome.validForMs;',
    tests: SIMULATION,
  },
  {
    mistake: 'an aborted wait leaves what it was granted to nobody',
    file: 'src/hold/attempt.ts',
    find: 'if (!ask.isStopped) return false;\n    this.#cleanUp();',
    replace: 'if (!ask.isStopped) return false;',
    tests: ROWS,
  },
  {
    mistake: 'a release between the refusal and the listening is missed',
    file: 'src/hold/attempt.ts',
    find: 'Math.max(this.#leftMs, 1))));\n      return true;',
    replace: 'Math.max(this.#leftMs, 1))));\n      return false;',
    tests: CORE,
  },
  {
    mistake: 'a wait that timed out leaves its place in line',
    file: 'src/hold/attempt.ts',
    find: 'if (this.#mayStand) this.#cleanUp();',
    replace: '',
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
    file: 'src/hold/granted.ts',
    find: 'if (outcome.fence > core.record.fenceSeen) core.record.fenceSeen = outcome.fence;',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'a command without an answer is waited for for ever',
    file: 'src/hold/command.ts',
    find: 'command.isLate = true;\n    command.onFailure(error);',
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
    mistake: 'what was granted after we had given up is left to run out',
    file: 'src/hold/attempt.ts',
    find: 'if (this.#abandoned) this.#cleanUp();\n    else',
    replace: 'if (!this.#abandoned)',
    tests: SIMULATION,
  },
  {
    mistake: 'closing does not wait for what is under way',
    file: 'src/locks.ts',
    find: 'await this.#until(() => !core.isBusy, DEFAULTS.commandMs);',
    replace: '',
    tests: CORE,
  },
  {
    mistake: 'a term begins while the last one of the same process still runs',
    file: 'src/primitives/candidate.ts',
    find: 'if (failure === null) {\n        await work;',
    replace: 'if (failure === null) {',
    tests: CORE,
  },
  {
    mistake: 'several locks are taken in an order of JavaScript’s own',
    file: 'src/primitives/all.ts',
    find: 'return Buffer.compare(Buffer.from(a), Buffer.from(b));',
    replace: 'return a < b ? -1 : a > b ? 1 : 0;',
    tests: CORE,
  },
  {
    mistake: 'a watch is kept when the wait is over',
    file: 'src/hold/attempt.ts',
    find: 'this.core.endWork();\n    this.#wait?.end();\n    this.#stopWatching();',
    replace: 'this.core.endWork();\n    this.#wait?.end();',
    tests: CORE,
  },
  {
    mistake: 'a finished once is remembered no longer than a hold lives',
    file: 'src/primitives/once.ts',
    find: '() => grant.leaveBehind(rememberMs, DONE)',
    replace: '() => grant.leaveBehind(grant.ttlMs, DONE)',
    tests: CORE,
  },
];
