import { nowMs } from './guard-message.ts';

/** How often the process group is checked. */
const LOOK_EVERY_MS = 25;
/**
 * A process that SIGKILL has ended may remain as a zombie if init does not reap it, which is
 * harmless.
 */
const ZOMBIES_MS = 500;

/** Sends a signal to every process of the group. False when there is none. */
export function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal);
  } catch (error) {
    // "Not permitted" means that a process is left, for example a child that has changed its user.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/**
 * SIGTERM, then after `graceMs` SIGKILL, for the whole group. Resolves as soon as no process is
 * left.
 */
export async function endGroup(group: number, graceMs: number): Promise<void> {
  signalGroup(group, 'SIGTERM');
  // A stopped process gets SIGTERM only after SIGCONT.
  signalGroup(group, 'SIGCONT');
  if (await isGoneWithin(group, graceMs)) return;
  signalGroup(group, 'SIGKILL');
  await isGoneWithin(group, ZOMBIES_MS);
}

/**
 * Counts by the clock and not by rounds: on a busy machine each round is late, and SIGKILL must not
 * be.
 */
async function isGoneWithin(group: number, ms: number): Promise<boolean> {
  const endMs = nowMs() + ms;
  for (let leftMs = ms; leftMs > 0; leftMs = endMs - nowMs()) {
    if (!signalGroup(group, 0)) return true;
    await new Promise((resolve) => setTimeout(resolve, Math.min(LOOK_EVERY_MS, leftMs)));
  }
  return !signalGroup(group, 0);
}
