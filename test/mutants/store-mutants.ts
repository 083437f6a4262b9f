import type { Mutant } from './mutant.ts';

const CONTRACT = ['test/conformance/memory.test.ts'];
const CORE = ['test/core'];
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
    find: 'fence > this.#lastFence ? fence : this.#lastFence + 1n;',
    replace: 'fence > this.#lastFence ? fence : this.#lastFence;',
    tests: CONTRACT,
  },
  {
    mistake: 'the fence ignores what the caller has seen',
    file: MEMORY,
    find: 'if (request.fenceAbove > this.#lastFence) this.#lastFence = request.fenceAbove;',
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
