import { UsageError } from './exit-code.ts';

/**
 * Checks what stands after `run`. The parser looks for our options everywhere before `--`, also between the words of the command, and takes a `--` of the command's own away. So whatever could be
 * either one's is refused. `valued`: our options that take a value. Throws `UsageError`.
 */
export function checkWords(args: readonly string[], valued: ReadonlySet<string>): void {
  const words: string[] = [];
  const options = new Set<string>();
  for (let n = 0; n < args.length; n += 1) {
    const arg = args[n] ?? '';
    const isOption = arg.startsWith('-') && arg !== '-';
    // The first word is the name of the lock, the second begins the command.
    if (isOption && words[1] !== undefined) throw new UsageError(misplaced(arg, words[1]));
    if (arg === '--') break;
    if (!isOption) words.push(arg);
    else options.add(arg.replace(/=.*/s, ''));
    if (valued.has(arg)) n += 1;
  }
  if (options.has('--wait') && options.has('--no-wait'))
    throw new UsageError('--wait and --no-wait exclude each other');
}

function misplaced(option: string, command: string): string {
  const form = `holdfast run NAME [options] -- ${command} …`;
  if (option === '--') return `-- must stand before the command, not within it: ${form}`;
  return `${option} comes after the command ${command}; put -- between our options and the command, which then keeps all of its own: ${form}`;
}
