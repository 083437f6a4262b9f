import { UsageError } from './exit-code.ts';

/**
 * Checks the arguments after `run`, `once` or `elect`. The parser looks for our options everywhere
 * before `--`, also between the words of the command, and removes a `--` of the command itself. An
 * argument that could belong to either is refused. `valued`: our options that take a value. Throws
 * `UsageError`.
 */
export function checkOptionPositions(
  verb: string,
  args: readonly string[],
  valued: ReadonlySet<string>,
): void {
  const words: string[] = [];
  const options = new Set<string>();
  for (let n = 0; n < args.length; n += 1) {
    const arg = args[n] ?? '';
    const isOption = arg.startsWith('-') && arg !== '-';
    // The first word is the name of the lock, the second begins the command.
    if (isOption && words[1] !== undefined) throw new UsageError(misplaced(verb, arg, words[1]));
    if (arg === '--') break;
    if (!isOption) words.push(arg);
    else options.add(arg.replace(/=.*/s, ''));
    if (valued.has(arg)) n += 1;
  }
  if (options.has('--wait') && options.has('--no-wait'))
    throw new UsageError('--wait and --no-wait exclude each other');
}

function misplaced(verb: string, option: string, command: string): string {
  const form = `holdfast ${verb} NAME [options] -- ${command} …`;
  if (option === '--') return `-- must come before the command, not inside it: ${form}`;
  const fix = 'put -- before the command, so that it keeps its own options';
  return `${option} comes after the command ${command}; ${fix}: ${form}`;
}
