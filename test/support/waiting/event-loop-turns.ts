import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

/**
 * Some turns of the event loop. After a pause of the machine, a reply that came meanwhile is handled before
 * the timers that were due long before it.
 */
export async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
}

/** So long, and some turns of the event loop, which a busy machine may run all at once. */
export async function turnsAfter(ms: number): Promise<void> {
  await sleep(ms);
  await turns();
}
