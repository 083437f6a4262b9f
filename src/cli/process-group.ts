import { nowMs } from './guard-message.ts';

/** How often it is looked whether a process group is gone. */
const LOOK_EVERY_MS = 25;
/** What SIGKILL has ended may be left as a zombie by a careless init; it does nothing any more. */
const ZOMBIES_MS = 500;

/** Sends a signal to every process of the group. False when there is none. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal);
  } catch (error) {
    // Not allowed means that there is still somebody, for example a child that has changed its user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** SIGTERM, then after `graceMs` SIGKILL, for the whole group. Resolves when nobody is left, sooner if they are quick. */
export async function endGroup(group: number, graceMs: number): Promise<void> {
  signalGroup(group, 'SIGTERM');
  // A process that is stopped gets SIGTERM only when it goes on.
  signalGroup(group, 'SIGCONT');
  if (await isGoneWithin(group, graceMs)) return;
  signalGroup(group, 'SIGKILL');
  await isGoneWithin(group, ZOMBIES_MS);
}

/** By the clock and not by counting rounds: on a busy machine each round is late, and SIGKILL must not be. */
async function isGoneWithin(group: number, ms: number): Promise<boolean> {
  const endMs = nowMs() + ms;
  for (let leftMs = ms; leftMs > 0; leftMs = endMs - nowMs()) {
    if (!signalGroup(group, 0)) return true;
    await new Promise((resolve) => setTimeout(resolve, Math.min(LOOK_EVERY_MS, leftMs)));
  }
  return !signalGroup(group, 0);
}
