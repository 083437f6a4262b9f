import type { Mutant } from './mutant.ts';

const ACQUIRE = 'test/core/acquire.test.ts';
const CONTRACT = 'test/conformance/memory.test.ts';

/** Mistakes in the memory store, which the conformance suite must notice. */
export const STORE_MUTANTS: readonly Mutant[] = [
  {
    mistake: 'release frees the holder without comparing the id',
    symbol: 'MemoryStore.release',
    find: 'const claim = queue?.get(ref.id);',
    replace: 'const claim = queue?.get(ref.id) ?? (queue && [...queue.held][0]);',
    test: CONTRACT,
    by: 'release says whether it removed the claim, and removes no other',
  },
  {
    mistake: 'a newcomer that fits overtakes the waiters',
    symbol: 'ClaimQueue.next',
    find: 'const { first } = this.waiting;',
    replace: 'const first = [...this.waiting].find(({ mode }) => fits(this.#weight, mode)) ?? null;',
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
    find: 'if (claim.expiresAtMs <= nowMs)',
    replace: 'if (claim.fence === null && claim.expiresAtMs <= nowMs)',
    test: CONTRACT,
    by: 'an unrenewed hold expires',
  },
  {
    mistake: 'a holder whose reply was lost is refused as if another held the lock',
    symbol: 'MemoryStore.claim',
    find: 'let claim = queue.get(id);',
    replace:
      'let claim = queue.get(id);\n    if (claim !== undefined && claim.fence !== null) return REFUSED;',
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
      'void ttlMs;\n      waiter?.wake();\n      for (const each of queue.waiting) each.waiter?.wake();',
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
    symbol: 'MemoryStore.claim',
    find: '!request.wait ||',
    replace: '',
    test: CONTRACT,
    by: 'a refused claim that does not wait leaves no queue position',
  },
  {
    mistake: 'the queue has no bound',
    symbol: 'MemoryStore.claim',
    find: ' || queue.waiting.length > this.#queueMax',
    replace: '',
    test: CONTRACT,
    by: 'a full queue refuses',
  },
  {
    mistake: 'a mutex and a semaphore share a name unnoticed',
    symbol: 'MemoryStore.claim',
    find: '!agree(present, mode)',
    replace: 'false',
    test: CONTRACT,
    by: 'a semaphore and a mutex of one name disagree',
  },
  {
    mistake: 'a dead waiter stays in the queue for ever',
    symbol: 'ClaimQueue.expire',
    find: 'if (claim.expiresAtMs <= nowMs)',
    replace: 'if (claim.fence !== null && claim.expiresAtMs <= nowMs)',
    test: CONTRACT,
    by: 'is gone in the end, also under a hold',
  },
  {
    mistake: 'asking again does not keep the queue position',
    symbol: 'MemoryStore.claim',
    find: 'queue.keep(claim, ttlMs, now);',
    replace: '{ if (claim.fence !== null) queue.keep(claim, ttlMs, now); }',
    test: ACQUIRE,
    by: 'keeps its queue position for as long as it waits',
  },
];
