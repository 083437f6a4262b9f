import type { Mutant } from './mutant.ts';

const ROWS = 'test/faults/core/in-process.test.ts';
const SIMULATION = 'test/simulation/interleavings.test.ts';
const ACQUIRE = 'test/core/acquire.test.ts';
const CAMPAIGN = 'test/core/candidate.test.ts';
const CLEAN_UP = 'test/core/clean-up.test.ts';
const CLOSING = 'test/core/closing.test.ts';
const ELECTION = 'test/core/election.test.ts';
const LATE_CLAIM = 'test/core/late-claim.test.ts';
const LEFTOVERS = 'test/core/leftovers.test.ts';
const LOCKS = 'test/core/locks.test.ts';
const RUN = 'test/core/run.test.ts';

/** Mistakes in acquiring, in the primitives and in closing. */
export const CALL_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'a grant is trusted however late its answer comes',
    symbol: 'Attempt.#accept',
    find: 'const deadline =',
    replace:
      'sent = { monotonicMs: core.clock.monotonicMs(), wallMs: core.clock.wallMs() };\n    const deadline =',
    test: SIMULATION,
    by: 'breaks a lock',
  },
  {
    mistake: 'an aborted wait leaves its grant without an owner',
    symbol: 'Attempt.#abandon',
    find: '() => this.#cleanUp(this.#mayArriveLate),',
    replace: '() => {},',
    test: ROWS,
    by: 'an abort at any instant around the grant',
  },
  {
    mistake: 'a wake-up between the refusal and the sleep is missed',
    symbol: 'Wait.sleep',
    find: 'if (!this.#isWoken && this.#stopped === null) {',
    replace: '{',
    test: ACQUIRE,
    by: 'does not miss a release',
  },
  {
    mistake: 'a wait that timed out leaves its claim in the queue',
    symbol: 'Attempt.giveUp',
    find: 'if (this.#mayStand) this.#cleanUp(this.#mayArriveLate);',
    replace: '',
    test: ACQUIRE,
    by: 'leaves nothing in the queue after a time-out',
  },
  {
    mistake: 'a release that overtook its claim is not repeated',
    symbol: 'CleanUp.#lookAgain',
    replace: '',
    test: CLEAN_UP,
    by: 'that reaches the server after its release is still removed',
  },
  {
    mistake: 'a caller that stops waiting does not abort its command',
    symbol: 'Attempt.#abandon',
    find: 'this.#controller?.abort(reason);',
    replace: '',
    test: CLEAN_UP,
    by: 'that was not sent when its caller aborted is never sent',
  },
  {
    mistake: 'locks are taken in the caller’s order, so two callers can wait for each other',
    symbol: 'AllLock.constructor',
    find: '[...new Set<string>(names)].sort(byBytes)',
    replace: '[...new Set<string>(names)]',
    test: CLOSING,
    by: 'acquires in the order of the bytes of the names',
  },
  {
    mistake: 'closing does not stop the waits',
    symbol: 'Core.refuseNew',
    replace: 'this.isClosed = true;',
    test: LOCKS,
    by: 'rejects new and waiting acquires',
  },
  {
    mistake: 'the greatest fence seen is forgotten',
    symbol: 'Attempt.#accept',
    find: 'if (fence > core.record.fenceSeen) core.record.fenceSeen = fence;',
    replace: '',
    test: LOCKS,
    by: 'keeps rising when the store has lost its data',
  },
  {
    mistake: 'a command has no time limit',
    symbol: 'Commands.#onLimit',
    replace: '',
    test: ACQUIRE,
    by: 'gives every command a time limit',
  },
  {
    mistake: 'a failed release hides the function’s own error',
    symbol: 'runHeld',
    find: 'await hold.release().catch((releaseError: unknown) => attach(error, releaseError));',
    replace: 'await hold.release();',
    test: RUN,
    by: 'rejects with the error of the function',
  },
  {
    mistake: 'a candidate believes that it leads until the store says otherwise',
    symbol: 'Campaign.isLeader',
    replace: 'return this.#held !== null && !this.#stopped.signal.aborted;',
    test: ELECTION,
    by: 'turns isLeader false at the deadline',
  },
  {
    mistake: 'an observer believes a stale replica and goes back to an earlier term',
    symbol: 'changes',
    find: 'if (fence >= term && ',
    replace: 'if (',
    test: ELECTION,
    by: 'observers never go back to a term',
  },
  {
    mistake: 'a grant that arrives after the caller has stopped waiting is left until it expires',
    symbol: 'Attempt.#onLate',
    find: 'if (this.#isGivenUp) this.#cleanUp(false);\n    else',
    replace: 'if (!this.#isGivenUp)',
    test: LATE_CLAIM,
    by: 'as soon as its answer comes',
  },
  {
    mistake: 'a claim request that is executed after the release of its hold is left until it expires',
    symbol: 'HeldClaim.#finish',
    find: 'if (this.mayArriveLate) core.cleanUp.repeatLater(this.#sendLast, this.ttlMs);',
    replace: '',
    test: LATE_CLAIM,
    by: 'although its answer is lost',
  },
  {
    mistake: 'closing does not wait for pending calls',
    symbol: 'StoreLocks.#close',
    find: 'await this.#until(() => !core.isBusy, core.commands.limitMs);',
    replace: '',
    test: LOCKS,
    by: 'releases a claim that was granted while it closed',
  },
  {
    mistake: 'a term begins while the last one of the same process still runs',
    symbol: 'Campaign.#serve',
    find: 'await this.#drain(work);',
    replace: 'if (this.#stopped.signal.aborted) await this.#drain(work);',
    test: CAMPAIGN,
    by: 'does not begin a second term before the first has ended',
  },
  {
    mistake: 'a candidate that is stopped releases the lock while it still works',
    symbol: 'Campaign.#serve',
    find: 'await this.#drain(work);',
    replace: 'if (!this.#stopped.signal.aborted) await this.#drain(work);',
    test: CAMPAIGN,
    by: 'that is stopped releases the lock only after its work has ended',
  },
  {
    mistake: 'several locks are taken in the order of UTF-16 units',
    symbol: 'byBytes',
    replace: 'return a < b ? -1 : a > b ? 1 : 0;',
    test: CLOSING,
    by: 'acquires in the order of the bytes of the names',
  },
  {
    mistake: 'a wait that is over still listens to the caller’s signal',
    symbol: 'Wait.end',
    find: 'this.#stopListening?.();',
    replace: '',
    test: 'test/core/abort.test.ts',
    by: 'has no listener left once the lock was granted',
  },
  {
    mistake: 'a finished once is remembered no longer than a hold lives',
    symbol: 'once',
    find: '() => held.leaveBehind(rememberMs, DONE)',
    replace: '() => held.leaveBehind(held.ttlMs, DONE)',
    test: LEFTOVERS,
    by: 'is remembered for rememberMs',
  },
];
