import { setTimeout as sleep } from 'node:timers/promises';
import type { Hold } from '../../../src/index.ts';

/**
 * Resolves when the hold was renewed from now on. Rejects
 * when it is lost instead.
 */
export async function renewed(hold: Hold, budgetMs = 20_000): Promise<void> {
  let leftMs = hold.remainingMs;
  for (const end = performance.now() + budgetMs; performance.now() < end; await sleep(10)) {
    hold.assertHeld();
    if (hold.remainingMs > leftMs) return;
    leftMs = hold.remainingMs;
  }
  throw new Error(`not renewed within ${budgetMs} ms`);
}

/**
 * The first of these that has been renewed once. A machine that is stalled for as long as a short
 * time to live or session takes it away: then the next is tried. Where renewals fail, all of them
 * are lost.
 */
export async function firstRenewed<T extends { readonly hold: Hold }>(
  make: (round: number) => Promise<T>,
): Promise<T> {
  for (let round = 0; ; round += 1) {
    const made = await make(round);
    try {
      await renewed(made.hold);
      return made;
    } catch (error) {
      if (round === 4) throw error;
    }
  }
}
