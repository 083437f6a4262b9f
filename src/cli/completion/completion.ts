import type { Command } from 'commander';
import { EXIT } from '../exit-code.ts';
import { print } from '../print.ts';
import { type Candidate, type Plan, plan } from './plan.ts';
import { SCRIPTS, type Shell } from './scripts.ts';
import { forBash, readLine } from './shell-line.ts';
import { storedCandidates } from './stored-names.ts';

/** Prints the script that connects a shell with `complete`. */
export async function completion(shell: Shell): Promise<number> {
  process.stdout.write(SCRIPTS[shell]);
  return EXIT.ok;
}

/**
 * Answers a completion script: a line with the kind of completion, then a line for each candidate.
 * bash passes the line up to the cursor and its word-break characters. Other shells pass the words.
 */
export async function complete(holdfast: Command, shell: Shell, args: readonly string[]): Promise<number> {
  const [line = '', wordBreaks = ''] = args;
  const { words, raw } = shell === 'bash' ? readLine(line) : { words: ['', ...args], raw: '' };
  const current = words.at(-1) ?? '';
  const wanted = plan(holdfast, words.slice(1));
  const candidates = await candidatesOf(wanted, current);
  print(wanted.kind === 'command' || wanted.kind === 'files' ? wanted.kind : 'words');
  for (const candidate of candidates.filter(({ text }) => text.startsWith(current))) {
    const text = shell === 'bash' ? forBash(candidate.text, raw, wordBreaks) : described(shell, candidate);
    if (text !== null) print(text);
  }
  return EXIT.ok;
}

async function candidatesOf(wanted: Plan, current: string): Promise<readonly Candidate[]> {
  if (wanted.kind === 'words') return wanted.words;
  if (wanted.kind === 'names' || wanted.kind === 'claims') return await storedCandidates(wanted, current);
  return [];
}

/** zsh separates the description by a colon, fish by a tab. */
function described(shell: Shell, { text, description }: Candidate): string {
  const separator = shell === 'zsh' ? ':' : '\t';
  const escaped = shell === 'zsh' ? text.replace(/[\\:]/g, '\\$&') : text;
  return description === '' ? escaped : `${escaped}${separator}${description}`;
}
