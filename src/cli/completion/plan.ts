import type { Argument, Command, Option } from 'commander';
import type { Use } from '../../use.ts';

export interface Candidate {
  readonly text: string;
  readonly description: string;
}

/** What can be completed at the cursor. */
export type Plan =
  | { readonly kind: 'words'; readonly words: readonly Candidate[] }
  /** Names in the store. Names of any use where `use` is `undefined`. */
  | { readonly kind: 'names'; readonly use: Use | undefined; readonly store: string | undefined }
  | { readonly kind: 'claims'; readonly name: string; readonly use: Use; readonly store: string | undefined }
  | { readonly kind: 'command' }
  | { readonly kind: 'files' };

const NOTHING: Plan = { kind: 'words', words: [] };

/** Verbs whose names are not those of locks. */
const USE_OF: Readonly<Record<string, Use>> = { once: 'once', forget: 'once' };
/** Verbs that show every use, unless `--use` selects one. */
const OF_ANY_USE: ReadonlySet<string> = new Set(['list', 'watch']);

/**
 * Reads the words after `holdfast`, of which the last is being typed. Everything follows from the
 * definitions of the commands, so that a new verb or option is completed as soon as it exists.
 */
export function plan(holdfast: Command, words: readonly string[]): Plan {
  const [verb = '', ...args] = words;
  if (args.length === 0)
    return { kind: 'words', words: verb.startsWith('-') ? optionsOf(holdfast) : verbsOf(holdfast) };
  const command = holdfast.commands.find((each) => each.name() === verb);
  if (command === undefined) return verb === 'help' ? { kind: 'words', words: verbsOf(holdfast) } : NOTHING;
  const typed = read(command, args.slice(0, -1));
  const current = args.at(-1) ?? '';
  if (typed.option !== null) return { kind: 'words', words: choicesOf(typed.option) };
  // Options are completed only after a dash, as in most shells. Otherwise arguments are completed.
  if (!typed.isSeparated && current.startsWith('-')) return optionPlan(command, current);
  return argumentPlan(command, typed);
}

interface Typed {
  readonly operands: readonly string[];
  readonly values: ReadonlyMap<string, string>;
  /** The option whose value is being typed. */
  readonly option: Option | null;
  readonly isSeparated: boolean;
}

function read(command: Command, words: readonly string[]): Typed {
  const operands: string[] = [];
  const values = new Map<string, string>();
  let option: Option | null = null;
  let isSeparated = false;
  for (const word of words) {
    if (option !== null) {
      values.set(option.name(), word);
      option = null;
    } else if (isSeparated || !word.startsWith('-')) operands.push(word);
    else if (word === '--') isSeparated = true;
    else {
      const [flag = '', ...value] = word.split('=');
      const known = optionNamed(command, flag);
      if (known !== null && value.length > 0) values.set(known.name(), value.join('='));
      else if (known !== null && takesValue(known)) option = known;
    }
  }
  return { operands, values, option, isSeparated };
}

function optionPlan(command: Command, current: string): Plan {
  const [flag = '', value] = current.split('=');
  if (value === undefined) return { kind: 'words', words: optionsOf(command) };
  const option = optionNamed(command, flag);
  const choices = option === null ? [] : choicesOf(option);
  return { kind: 'words', words: choices.map((each) => ({ ...each, text: `${flag}=${each.text}` })) };
}

function argumentPlan(command: Command, { operands, values }: Typed): Plan {
  const argument = argumentAt(command, operands.length);
  if (argument === undefined) return NOTHING;
  if (argument.argChoices !== undefined)
    return { kind: 'words', words: argument.argChoices.map((text) => ({ text, description: '' })) };
  const store = values.get('store');
  const verb = command.name();
  const selected = (values.get('use') as Use | undefined) ?? USE_OF[verb];
  switch (argument.name()) {
    case 'name':
    case 'prefix':
      return { kind: 'names', store, use: selected ?? (OF_ANY_USE.has(verb) ? undefined : 'lock') };
    case 'claim':
      return { kind: 'claims', store, use: selected ?? 'lock', name: operands[0] ?? '' };
    case 'command':
      return operands.length === 1 ? { kind: 'command' } : { kind: 'files' };
    default:
      return { kind: 'files' };
  }
}

function argumentAt({ registeredArguments }: Command, index: number): Argument | undefined {
  const last = registeredArguments.at(-1);
  return registeredArguments[index] ?? (last?.variadic === true ? last : undefined);
}

function verbsOf(holdfast: Command): Candidate[] {
  const commands = holdfast.createHelp().visibleCommands(holdfast);
  return commands.map((each) => ({ text: each.name(), description: each.description() }));
}

function optionsOf(command: Command): Candidate[] {
  const options = command.createHelp().visibleOptions(command);
  return options.map((each) => ({ text: each.long ?? each.short ?? '', description: each.description }));
}

function optionNamed(command: Command, flag: string): Option | null {
  return command.options.find((each) => each.long === flag || each.short === flag) ?? null;
}

function takesValue(option: Option): boolean {
  return option.required || option.optional;
}

function choicesOf({ argChoices = [] }: Option): Candidate[] {
  return argChoices.map((text) => ({ text, description: '' }));
}
