import { afterAll } from 'vitest';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';
import { openThreadStore } from '../thread/support/open-thread-store.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

describeConformance('a store in a thread', {
  traits: { lifetime: 'lease', ordered: true, counting: true, remembers: true },
  // The core in the thread is told, not the one of the process.
  evictions: 'renewal',
  open: () => openThreadStore(`sqlite:${folder.file('locks.db')}`),
  leftOut: ({ rule }) => (rule === 9 ? 'a URL does not set queueMax' : null),
});
