import { afterAll } from 'vitest';
import { threadClock } from '../../src/clock.ts';
import type { Store } from '../../src/store/store.ts';
import { threadProgram } from '../../src/thread/program-text.ts';
import { RenewalThread } from '../../src/thread/renewal-thread.ts';
import { SharedHeader } from '../../src/thread/shared-slots.ts';
import { ThreadStore } from '../../src/thread/thread-store.ts';
import { temporaryFolder } from '../sqlite/support/folder.ts';
import { describeConformance } from '../support/conformance/describe-conformance.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

async function open(): Promise<Store> {
  const header = new SharedHeader();
  header.setTurn(threadClock);
  const thread = new RenewalThread(threadProgram(), {
    url: `sqlite:${folder.file('locks.db')}`,
    file: import.meta.filename,
    commandMs: 5_000,
    header: header.buffer,
    withoutTurnMs: 600_000,
  });
  return new ThreadStore(thread, await thread.open(), header);
}

// `openLocks` opens files beside the thread. Here the file stands for the stores that live in it.
describeConformance('a store in a thread', {
  traits: { lifetime: 'lease', ordered: true, counting: true, remembers: true },
  // The core in the thread is told, not the one of the process.
  evictions: 'renewal',
  open,
  leftOut: ({ rule }) => (rule === 9 ? 'a URL does not set queueMax' : null),
});
