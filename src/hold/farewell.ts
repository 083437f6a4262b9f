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

/** `unknown`: some try before the answer may have been carried out unheard. */
interface Answer {
  readonly found: boolean;
  readonly unknown: boolean;
}

/** Sends it until the store answers, while the caller waits. */
export function sendUntilAnswered(core: Core, send: Farewell): Promise<Answer> {
  const endMs = core.clock.monotonicMs() + ANSWER_MS;
  return core.commands.run(send, TRY_MS).then(
    (found) => ({ found, unknown: false }),
    (error: unknown) => sendAgain(core, send, endMs, error),
  );
}

async function sendAgain(core: Core, send: Farewell, endMs: number, failure: unknown): Promise<Answer> {
  const { commands, clock } = core;
  for (let error = failure, unknown = false; ; ) {
    unknown ||= isUnknown(error);
    if (!isStoreError(error) || clock.monotonicMs() + RETRY_MS >= endMs) throw error;
    await pause(clock, RETRY_MS, { keepAlive: true });
    try {
      return { found: await commands.run(send, TRY_MS), unknown };
    } catch (again) {
      error = again;
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
