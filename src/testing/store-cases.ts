import { claimCases } from './cases/claim-cases.ts';
import { fenceCases } from './cases/fence-cases.ts';
import { lifetimeCases } from './cases/lifetime-cases.ts';
import { lookCases } from './cases/look-cases.ts';
import { watchCases } from './cases/watch-cases.ts';
import type { StoreCase } from './store-case.ts';

/**
 * The conformance suite: what every store must do, as data. For each case, call `leftOut(store.traits, env)`; print the reason when there is one, otherwise
 * `await run(env)`. A false trait has cases of its own.
 */
export const storeCases: readonly StoreCase[] = [
  ...claimCases,
  ...lifetimeCases,
  ...watchCases,
  ...fenceCases,
  ...lookCases,
];
