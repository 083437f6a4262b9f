import type { Core } from '../core.ts';
import { Wait } from '../hold/wait.ts';
import { DEFAULTS } from '../options.ts';
import { backoff } from '../util/backoff.ts';
import { sendSafely } from '../util/command.ts';
import { isStoreError } from '../util/error-code.ts';
import type { ClaimView } from '../view.ts';

/** A change that causes no wake-up is seen within this time. */
const LOOK_EVERY_MS = 5_000;

export async function* observe(
  core: Core,
  name: string,
  look: () => Promise<ClaimView | null>,
  signal: AbortSignal | undefined,
): AsyncGenerator<ClaimView | null, void, undefined> {
  core.assertOpen();
  signal?.throwIfAborted();
  const wait = new Wait(core, signal);
  wait.begin();
  core.processRef.begin();
  const watch = sendSafely(() => core.store.watch({ name }, () => wait.wake()));
  try {
    // The watch begins before the first read, so that no change falls between the two. Without a
    // watch the loop polls.
    await wait.race(core.commands.run(() => watch).catch(() => {}));
    yield* changes(core, wait, look);
  } catch (error) {
    if (!core.isClosed) throw error;
  } finally {
    core.processRef.end();
    wait.end();
    watch.then((armed) => armed[Symbol.asyncDispose]()).catch(() => {});
  }
}

async function* changes(
  core: Core,
  wait: Wait,
  look: () => Promise<ClaimView | null>,
): AsyncGenerator<ClaimView | null, void, undefined> {
  let last: string | null | undefined;
  let term = 0n;
  for (let failures = 0; ; ) {
    wait.throwIfStopped();
    try {
      const leader = await wait.race(look());
      failures = 0;
      const fence = leader?.fence ?? term;
      // A stale replica may still show an earlier leader: an observer never goes back to it.
      if (fence >= term && (leader?.id ?? null) !== last) {
        term = fence;
        last = leader?.id ?? null;
        // The process stays alive while the caller waits for the next change, and not in between.
        core.processRef.end();
        try {
          yield leader;
        } finally {
          core.processRef.begin();
        }
        continue;
      }
      await wait.sleep(Math.max(Math.min(leader?.expiresInMs ?? LOOK_EVERY_MS, LOOK_EVERY_MS), 100));
    } catch (error) {
      if (!isStoreError(error)) throw error;
      await wait.sleep(backoff(core.clock, failures++, DEFAULTS.retryMs));
    }
  }
}
