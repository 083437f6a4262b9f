import type { Mutant } from './mutant.ts';

const ACQUIRE = 'test/core/acquire.test.ts';
const CONTRACT = 'test/conformance/memory.test.ts';
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
    test: CONTRACT,
    by: 'release tells whether it removed the claim, and removes no other',
  },
  {
    mistake: 'a newcomer that fits overtakes those who wait',
    file: LINE,
    find: 'return this.#first === null && fits(this.#weight, mode);',
    replace: 'return fits(this.#weight, mode);',
    test: CONTRACT,
    by: 'a waiting writer is not overtaken by readers',
  },
  {
    mistake: 'renewing a place in line makes it a hold',
    file: MEMORY,
    find: 'claim === undefined || claim.fence === null) return { held: false };',
    replace: 'claim === undefined) return { held: false };',
    test: CONTRACT,
    by: 'renewing a place in line does not make it a hold',
  },
  {
    mistake: 'two grants get the same fence',
    file: MEMORY,
    find: 'fence > this.#lastFence ? fence : this.#lastFence + 1n;',
    replace: 'fence > this.#lastFence ? fence : this.#lastFence;',
    test: CONTRACT,
    by: 'each later hold of a lock has a greater fence',
  },
  {
    mistake: 'the fence ignores what the caller has seen',
    file: MEMORY,
    find: 'if (request.fenceAbove > this.#lastFence) this.#lastFence = request.fenceAbove;',
    replace: '',
    test: CONTRACT,
    by: 'a fence is above every fence that the caller has seen',
  },
  {
    mistake: 'a hold never runs out',
    file: LINE,
    find: 'if (nowMs >= this.#heldUntilMs) this.#heldUntilMs = this.#expireAll(this.held, nowMs);',
    replace: '',
    test: CONTRACT,
    by: 'an unrenewed hold runs out',
  },
  {
    mistake: 'a holder whose reply was lost is told that the lock is held',
    file: MEMORY,
    find: `if (claim.fence !== null) {
      line.renew`,
    replace: `if (claim.fence !== null) {
      if (claim.ttlMs > 0) return { granted: false, retryAfterMs: null };
      line.renew`,
    test: CONTRACT,
    by: 'a holder that asks again gets the same grant',
  },
  {
    mistake: 'nobody is woken by a release',
    file: MEMORY,
    find: 'this.#watchers.tellClaim(claim.id);',
    replace: '',
    test: CONTRACT,
    by: 'a release wakes the waiter that listens',
  },
  {
    mistake: 'everybody is woken by a release',
    file: MEMORY,
    find: 'this.#watchers.tellClaim(claim.id);',
    replace: 'for (const each of line.claims.keys()) this.#watchers.tellClaim(each);',
    test: CONTRACT,
    by: 'a release wakes one waiter, not those behind it',
  },
  {
    mistake: 'what a released hold weighed is never given back',
    file: LINE,
    find: 'this.#weight -= weightOf(claim.mode);',
    replace: '',
    test: CONTRACT,
    by: 'permits are counted, also several at a time',
  },
  {
    mistake: 'who did not want to wait stands in line all the same',
    file: MEMORY,
    find: 'if (!request.wait) return this.#refuse(request.name, line, null, now);',
    replace: '',
    test: CONTRACT,
    by: 'a refusal without a wish to wait leaves no place in line',
  },
  {
    mistake: 'the line has no bound',
    file: MEMORY,
    find: 'if (line.waiting >= this.#lineMax) throw',
    replace: 'if (line.waiting < 0) throw',
    test: CONTRACT,
    by: 'a full line refuses',
  },
  {
    mistake: 'a mutex and a semaphore share a name unnoticed',
    file: MEMORY,
    find: 'if (present !== null) throw new ModeMismatchError(request.name, request.mode, present);',
    replace: '',
    test: CONTRACT,
    by: 'a semaphore and a mutex of one name disagree',
  },
  {
    mistake: 'a dead waiter keeps its place for ever',
    file: LINE,
    find: 'if (nowMs >= this.#waitUntilMs) this.#waitUntilMs = this.#expireAll(this.#places(), nowMs);',
    replace: '',
    test: CONTRACT,
    by: 'is gone in the end, also while the lock is held',
  },
  {
    mistake: 'asking again does not keep the place in line',
    file: MEMORY,
    find: 'line.keepPlace(claim, now);\n    return',
    replace: 'return',
    test: ACQUIRE,
    by: 'keeps its place in line for as long as it waits',
  },
];
