import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Short texts that take long. Vitest starts the largest files first until it has measured them, so on
 * a new clone these would start last, and one worker would end long after the others.
 */
const SLOW: readonly RegExp[] = [
  // It leaves the installed package for the other tests of the package.
  /test\/package\/package\./,
  /test\/(?:mutants|simulation|models)\//,
  /test\/package\/(?:bundlers|test-runners)\./,
  /test\/torture\/failover\./,
  /\/(?:soak|advisory-nemesis)\./,
  /test\/conformance\//,
];

/** These start tens of processes each: two of them at once would keep all others from the processor. */
const BUSY = /test\/(?:faults\/(?:outage|process-exit|torture)|schedule\/processes|torture\/torture)\./;
/** How many files start between two of them. */
const APART = 40;

function rankOf({ moduleId }: TestSpecification): number {
  const rank = SLOW.findIndex((each) => each.test(moduleId));
  return rank < 0 ? SLOW.length : rank;
}

/** Starts the slow files before all others, in the order of the list, and the busy ones one by one. */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
    const order = sorted.filter(({ moduleId }) => !BUSY.test(moduleId));
    const busy = sorted.filter(({ moduleId }) => BUSY.test(moduleId));
    for (const [n, file] of busy.entries()) order.splice(n * (APART + 1), 0, file);
    return order;
  }
}
