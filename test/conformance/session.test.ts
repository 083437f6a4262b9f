import { memoryStore } from '../../src/index.ts';
import { virtualClock } from '../../src/testing/index.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { sessionStore } from '../support/memory/session-store.ts';

const clock = virtualClock();
const store = memoryStore({ clock });

// Not a store for users: it shows that the cases for session stores can be met.
describeConformance('session over memory', {
  traits: { lifetime: 'session', ordered: true, counting: true, remembers: false },
  open: async (options) => sessionStore(options === undefined ? store : memoryStore({ clock, ...options })),
  pass: (ms) => clock.advance(ms),
  timeIsFree: true,
});
