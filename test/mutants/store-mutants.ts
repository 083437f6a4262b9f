import type { Mutant } from './mutant.ts';

const ACQUIRE = 'test/core/acquire.test.ts';
const CONTRACT = 'test/conformance/memory.test.ts';

/** Mistakes in the memory store, which the conformance suite must notice. */
export const STORE_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'release frees the holder without comparing the id',
    symbol: 'MemoryStore.release',
    find: 'const claim = queue?.claims.get(ref.id);',
    replace: 'const claim = queue?.claims.get(ref.id) ?? (queue && [...queue.held][0]);',
    test: CONTRACT,
    by: 'release says whether it removed the claim, and removes no other',
  },
  {
    mistake: 'a newcomer that fits overtakes the waiters',
    symbol: 'ClaimQueue.fitsNow',
    replace: 'return fits(this.#weight, mode);',
    test: CONTRACT,
    by: 'a waiting writer is not overtaken by readers',
  },
  {
    mistake: 'renewing a waiting claim makes it a hold',
    symbol: 'MemoryStore.renew',
    find: 'claim === undefined || claim.fence === null) return { held: false };',
    replace: 'claim === undefined) return { held: false };',
    test: CONTRACT,
    by: 'renewing a waiting claim does not make it a hold',
  },
  {
    mistake: 'two grants get the same fence',
    symbol: 'MemoryStore.#nextFence',
    replace: 'return BigInt(Math.floor(this.#clock.wallMs() * 1000));',
    test: CONTRACT,
    by: 'each later hold of a lock has a greater fence',
  },
  {
    mistake: 'the fence ignores what the caller has seen',
    symbol: 'MemoryStore.claim',
    find: 'if (request.fenceAbove > this.#lastFence) this.#lastFence = request.fenceAbove;',
    replace: '',
    test: CONTRACT,
    by: 'a fence is above every fence that the caller has seen',
  },
  {
    mistake: 'a hold never expires',
    symbol: 'ClaimQueue.expire',
    find: 'if (nowMs >= this.#heldUntilMs) this.#heldUntilMs = this.#expireAll(this.held, nowMs);',
    replace: '',
    test: CONTRACT,
    by: 'an unrenewed hold expires',
  },
  {
    mistake: 'a holder whose reply was lost is refused as if another held the lock',
    symbol: 'MemoryStore.#askAgain',
    find: 'if (claim.fence !== null) {',
    replace:
      'if (claim.fence !== null) return { granted: false, retryAfterMs: null };\n' +
      '    if (claim.fence !== null) {',
    test: CONTRACT,
    by: 'a holder that asks again gets the same grant',
  },
  {
    mistake: 'a release wakes no waiter',
    symbol: 'MemoryStore.#promote',
    find: 'waiter?.wake({ fence, validForMs: ttlMs });',
    replace: 'void [waiter, ttlMs];',
    test: CONTRACT,
    by: 'a release wakes the waiter',
  },
  {
    mistake: 'a release wakes every waiter',
    symbol: 'MemoryStore.#promote',
    find: 'waiter?.wake({ fence, validForMs: ttlMs });',
    replace:
      'void ttlMs;\n      waiter?.wake();\n      for (const each of queue.waiters()) each.waiter?.wake();',
    test: CONTRACT,
    by: 'a release wakes one waiter, not those behind it',
  },
  {
    mistake: 'the weight of a released hold is never freed',
    symbol: 'ClaimQueue.remove',
    find: 'this.#weight -= weightOf(claim.mode);',
    replace: '',
    test: CONTRACT,
    by: 'permits are counted, also several at a time',
  },
  {
    mistake: 'a claim that does not wait is still enqueued',
    symbol: 'MemoryStore.#enqueue',
    find: 'if (!request.wait) return this.#refuse(request.name, queue, null, now);',
    replace: '',
    test: CONTRACT,
    by: 'a refused claim that does not wait leaves no queue position',
  },
  {
    mistake: 'the queue has no bound',
    symbol: 'MemoryStore.#enqueue',
    find: 'if (queue.waiting >= this.#queueMax) throw',
    replace: 'if (queue.waiting < 0) throw',
    test: CONTRACT,
    by: 'a full queue refuses',
  },
  {
    mistake: 'a mutex and a semaphore share a name unnoticed',
    symbol: 'ClaimQueue.disagreement',
    replace: 'return void mode ?? null;',
    test: CONTRACT,
    by: 'a semaphore and a mutex of one name disagree',
  },
  {
    mistake: 'a dead waiter stays in the queue for ever',
    symbol: 'ClaimQueue.expire',
    find: 'if (nowMs >= this.#waitUntilMs) this.#waitUntilMs = this.#expireAll([...this.waiters()], nowMs);',
    replace: '',
    test: CONTRACT,
    by: 'is gone in the end, also under a hold',
  },
  {
    mistake: 'asking again does not keep the queue position',
    symbol: 'MemoryStore.#askAgain',
    find: 'queue.keepPosition(claim, now);',
    replace: '',
    test: ACQUIRE,
    by: 'keeps its queue position for as long as it waits',
  },
];
