import { EXIT } from './exit-code.ts';
import type { GuardedCommand } from './guarded-command.ts';
import { HeldCommand } from './held-command.ts';
import { type HoldOptions, resolveHold } from './hold-options.ts';

/** The command was ended because its term was lost, or was about to be: the candidate stands again. */
class TermLost extends Error {}

/**
 * Runs a command while leader, again in each term. Its own exit resigns. Resolves to the exit code of
 * the command.
 */
export async function elect(
  url: string,
  name: string,
  command: readonly string[],
  options: HoldOptions,
  guard: GuardedCommand | null,
): Promise<number> {
  const held = new HeldCommand(name, command, resolveHold(options), guard);
  return await held.execute(url, async (locks) => {
    const { signal, ...terms } = held.settings;
    const election = locks.election(name, terms);
    let exitCode: number = EXIT.internal;
    const lead = (): Promise<void> =>
      election.lead(
        async (term) => {
          const { code, isLost } = await held.run(locks, term);
          if (isLost) throw new TermLost();
          exitCode = code;
        },
        { signal },
      );
    return await held.whileWaiting(locks, 'lock', async () => {
      for (;;) {
        try {
          await lead();
          return exitCode;
        } catch (error) {
          // The guard ends the command before the term is lost, so the term may still be ours.
          if (!(error instanceof TermLost)) throw error;
        }
      }
    });
  });
}
