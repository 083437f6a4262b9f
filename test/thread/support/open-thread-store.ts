import { threadClock } from '../../../src/clock.ts';
import { threadProgram } from '../../../src/thread/program-text.ts';
import { RenewalThread } from '../../../src/thread/renewal-thread.ts';
import { SharedHeader } from '../../../src/thread/shared-slots.ts';
import { ThreadStore } from '../../../src/thread/thread-store.ts';

/** A store in a thread. `openLocks` opens files beside it: here a file stands for stores that live in it. */
export async function openThreadStore(url: string): Promise<ThreadStore> {
  const header = new SharedHeader();
  header.setTurn(threadClock);
  const thread = new RenewalThread(threadProgram(), {
    url,
    file: import.meta.filename,
    commandMs: 5_000,
    header: header.buffer,
    withoutTurnMs: 600_000,
  });
  return new ThreadStore(thread, await thread.open(), header);
}
