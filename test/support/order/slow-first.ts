import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Short texts that take long. Vitest starts the largest files first until it has measured them, so on
 * a new clone these would start last, and one worker would end long after the others.
 */
const SLOW: readonly RegExp[] = [
  /test\/schedule\/processes\./,
  // It leaves the installed package for the other tests of the package.
  /test\/package\/package\./,
  /test\/faults\/(?:outage|process-exit|torture)\./,
  /test\/(?:mutants|simulation|models)\//,
  /test\/package\/(?:bundlers|test-runners)\./,
  /test\/torture\/(?:failover|torture)\./,
  /\/(?:soak|advisory-nemesis)\./,
  /test\/conformance\//,
];

function rankOf({ moduleId }: TestSpecification): number {
  const rank = SLOW.findIndex((each) => each.test(moduleId));
  return rank < 0 ? SLOW.length : rank;
}

/** Starts the slow files before all others, in the order of the list. */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    return (await super.sort(files)).sort((a, b) => rankOf(a) - rankOf(b));
  }
}
