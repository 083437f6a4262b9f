import type { Core } from '../core.ts';
import { isStoreError, sendSafely } from '../hold/command.ts';
import { backoff } from '../hold/pause.ts';
import { disposeQuietly, Wait } from '../hold/wait.ts';
import { DEFAULTS } from '../options.ts';
import type { ClaimView } from '../view.ts';

/** A change that no wake-up told of is seen this soon. */
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
  const watch = sendSafely(() => core.store.watch({ name }, wait.wake));
  try {
    // Listening begins before the first look, so that no change falls between the two. Without it we look now and then.
    await wait.race(core.commands.run(() => watch).catch(() => {}));
    yield* changes(core, wait, look);
  } catch (error) {
    if (!core.isClosed) throw error;
  } finally {
    wait.end();
    disposeQuietly(watch);
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
      // A stale replica may still show an earlier leader: terms never go back.
      if (fence >= term && (leader?.id ?? null) !== last) {
        term = fence;
        last = leader?.id ?? null;
        yield leader;
        continue;
      }
      await wait.sleep(Math.max(Math.min(leader?.expiresInMs ?? LOOK_EVERY_MS, LOOK_EVERY_MS), 100));
    } catch (error) {
      if (!isStoreError(error)) throw error;
      await wait.sleep(backoff(core.clock, failures++, DEFAULTS.retryMs));
    }
  }
}
