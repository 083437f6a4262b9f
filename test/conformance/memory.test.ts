import { memoryStore } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { connectionTo } from '../support/memory/memory-connection.ts';

const clock = virtualClock();
const store = memoryStore({ clock });

describeConformance('memory', {
  traits: { lifetime: 'lease', ordered: true, counting: true, remembers: true },
  open: async (options) => connectionTo(options === undefined ? store : memoryStore({ clock, ...options })),
  pass: (ms) => clock.advance(ms),
  timeIsFree: true,
});
