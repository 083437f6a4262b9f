import type { Core } from '../core.ts';
import { isStoreError, isUnknown } from './command.ts';
import { pause } from './pause.ts';

/** The last command about a claim. Resolves to whether it found the claim. */
export type Farewell = (signal: AbortSignal) => Promise<boolean>;

/** How long it is tried before the caller is told that it failed, and how long each try may take. */
const ANSWER_MS = 5_000;
const TRY_MS = 1_500;
const RETRY_MS = 100;
const INSIST_EVERY_MS = 500;

/** Sends it until the store answers, while the caller waits. `unknown`: some try may have been carried out unheard. */
export async function sendUntilAnswered(
  core: Core,
  send: Farewell,
): Promise<{ found: boolean; unknown: boolean }> {
  const { commands, clock } = core;
  const endMs = clock.monotonicMs() + ANSWER_MS;
  for (let unknown = false; ; ) {
    try {
      return { found: await commands.run(send, TRY_MS), unknown };
    } catch (error) {
      unknown ||= isUnknown(error);
      if (!isStoreError(error) || clock.monotonicMs() + RETRY_MS >= endMs) throw error;
      await pause(clock, RETRY_MS, { keepAlive: true });
    }
  }
}

/** Sends it in the background until the store answers, or until there can be nothing left to say it to. */
export async function insist(core: Core, send: Farewell, forMs: number): Promise<void> {
  const { commands, clock } = core;
  for (const endMs = clock.monotonicMs() + forMs; clock.monotonicMs() < endMs; ) {
    try {
      await commands.run(send, TRY_MS);
      return;
    } catch (error) {
      if (!isStoreError(error)) return;
      await pause(clock, INSIST_EVERY_MS);
    }
  }
}
