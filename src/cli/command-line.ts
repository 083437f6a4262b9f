import { CommanderError } from 'commander';
import { complain } from './complaint.ts';
import { describeFailure, EXIT, exitCodeOf } from './exit-code.ts';
import type { GuardedCommand } from './guarded-command.ts';
import { checkArguments, program } from './program.ts';
import { hasSecret, storesIn } from './store-url.ts';

const PASSWORD_SEEN =
  'a password in an argument can be seen by every user of this machine; put the URL in HOLDFAST_URL instead';

/** Parses the arguments and does what they say. Sets the exit code of the process. */
export async function commandLine(guard: GuardedCommand | null): Promise<void> {
  if (storesIn(process.argv).some(hasSecret)) complain(PASSWORD_SEEN);
  try {
    const holdfast = program(finish, guard);
    checkArguments(holdfast, process.argv.slice(2));
    await holdfast.parseAsync();
  } catch (error) {
    // Commander has already said what is wrong, or printed the help that was asked for.
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    else await finish(Promise.reject(error));
  }
}

async function finish(work: Promise<number>): Promise<void> {
  try {
    process.exitCode = await work;
  } catch (error) {
    complain(describeFailure(error));
    process.exitCode = exitCodeOf(error);
  }
}
