import { BaseSequencer, type TestSpecification } from 'vitest/node';

/**
 * Short texts that take long. Vitest starts the largest files first until it has measured them, so on
 * a new clone these would start last, and one worker would end long after the others.
 */
const SLOW: readonly RegExp[] = [
  /test\/faults\/(?:outage|process-exit|torture)\./,
  /test\/schedule\/processes\./,
  /test\/torture\/(?:failover|torture)\./,
  /test\/package\/(?:bundlers|package|test-runners)\./,
  /test\/(?:mutants|simulation|models)\//,
  /test\/conformance\//,
  /\/(?:soak|advisory-nemesis)\./,
];

const isSlow = ({ moduleId }: TestSpecification): boolean => SLOW.some((each) => each.test(moduleId));

/** Starts the slow files before all others. */
export class SlowFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    return [...sorted.filter(isSlow), ...sorted.filter((file) => !isSlow(file))];
  }
}
