import { EXIT } from './exit-code.ts';
import type { GuardedCommand } from './guarded-command.ts';
import { HeldCommand } from './held-command.ts';
import { type OnceOptions, resolveHold } from './hold-options.ts';
import { parseDuration, parseWait } from './option-values.ts';

/** The command did not succeed. Thrown inside `once`, so that the run is not remembered. */
class CommandFailed extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`the command ended with ${exitCode}`);
    this.exitCode = exitCode;
  }
}

/**
 * Runs a command unless it has succeeded within the time that is remembered. Resolves to the exit
 * code: that of the command, 0 when it was done already, 75 while it runs elsewhere.
 */
export async function once(
  url: string,
  name: string,
  command: readonly string[],
  options: OnceOptions,
  guard: GuardedCommand | null,
): Promise<number> {
  const rememberMs = parseDuration('--remember', options.remember);
  const waitMs = parseWait('--wait', options.wait);
  const held = new HeldCommand(name, command, resolveHold(options), guard);
  return await held.execute(url, async (locks) => {
    const settings = { ...held.settings, rememberMs, waitMs };
    try {
      const outcome = await held.whileWaiting(locks, 'once', () =>
        locks.once(
          name,
          async (hold) => {
            const { code } = await held.run(locks, hold);
            if (code !== EXIT.ok) throw new CommandFailed(code);
          },
          settings,
        ),
      );
      return outcome.ran || outcome.why === 'done' ? EXIT.ok : await held.notInTime(locks, 'once');
    } catch (error) {
      if (error instanceof CommandFailed) return error.exitCode;
      throw error;
    }
  });
}
