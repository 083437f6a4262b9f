import { claimCases } from './cases/claim-cases.ts';
import { evictionCases } from './cases/eviction-cases.ts';
import { fenceCases } from './cases/fence-cases.ts';
import { inspectCases } from './cases/inspect-cases.ts';
import { lifetimeCases } from './cases/lifetime-cases.ts';
import { wakeUpCases } from './cases/wake-up-cases.ts';
import type { StoreCase } from './store-case.ts';

/**
 * The conformance suite: what every store must do, as data. For each case, call
 * `leftOut(store.traits, env)`; print the reason when there is one, otherwise `await run(env)`. A
 * false trait has cases of its own.
 */
export const storeCases: readonly StoreCase[] = [
  ...claimCases,
  ...lifetimeCases,
  ...evictionCases,
  ...wakeUpCases,
  ...fenceCases,
  ...inspectCases,
];
