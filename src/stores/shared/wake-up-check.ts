import { type DiagnoseContext, ok, type Verdict, warn } from '../../store/finding.ts';
import { pause } from '../../util/backoff.ts';
import type { QueueSubscription } from './server-queue-store.ts';

/** How long the subscription may take, and how often it is looked at. */
const UP_MS = 2_000;
const LOOK_MS = 50;

/** Whether the server can push wake-ups to this process: opens the subscription. */
export async function checkWakeUp(
  { clock, limitMs }: Pick<DiagnoseContext, 'clock' | 'limitMs'>,
  subscription: QueueSubscription,
): Promise<Verdict> {
  const endMs = clock.monotonicMs() + Math.min(UP_MS, limitMs / 2);
  await subscription.start();
  while (!subscription.isUp && clock.monotonicMs() < endMs) await pause(clock, LOOK_MS);
  if (subscription.isUp)
    return ok('waiters are woken by a message of the server', 'A lock is handed to the next waiter at once.');
  return warn(
    'the subscription for wake-ups did not come up',
    'Waiters poll, so a handoff takes up to a second. Exclusion and fences are not affected.',
    'Allow this user to subscribe, and connect to the server without a pooler that cannot pass messages on.',
  );
}
