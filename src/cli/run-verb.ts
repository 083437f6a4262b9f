import { CommanderError } from 'commander';
import { describeFailure, EXIT, exitCodeOf } from './exit-code.ts';
import type { GuardedCommand } from './guarded-command.ts';
import { reportError } from './report-error.ts';
import { hasSecret, isDefaultStore, storesIn } from './store-url.ts';
import { checkArguments, defineVerbs } from './verbs.ts';

const PASSWORD_SEEN =
  'a password in an argument can be seen by every user of this machine; put the URL in HOLDFAST_URL instead';

const ELSEWHERE = '; or name another store, with --store or in HOLDFAST_URL';

/** Parses the arguments and runs the verb. Sets the exit code of the process. */
export async function runVerb(guard: GuardedCommand | null): Promise<void> {
  process.stdout.on('error', onOutputError);
  if (storesIn(process.argv).some(hasSecret)) reportError(PASSWORD_SEEN);
  try {
    const holdfast = defineVerbs(finish, guard);
    checkArguments(holdfast, process.argv.slice(2));
    await holdfast.parseAsync();
  } catch (error) {
    // Commander has already printed the error or the help.
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? EXIT.ok : EXIT.usage;
    else await finish(Promise.reject(error));
  }
}

async function finish(work: Promise<number>): Promise<void> {
  try {
    process.exitCode = await work;
  } catch (error) {
    process.exitCode = exitCodeOf(error);
    const isUnreachable = process.exitCode === EXIT.unreachable;
    const hint = isUnreachable && isDefaultStore(process.argv) ? ELSEWHERE : '';
    reportError(describeFailure(error) + hint);
  }
}

/** The reader of a pipe may end before us, as `head` does, and a terminal may be closed. */
function onOutputError(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE' && error.code !== 'EIO') throw error;
  process.exit(EXIT.ok);
}
