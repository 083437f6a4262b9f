import { at, type Check } from './file.ts';

const SELF = 'test/support/tidy/word-checks.ts';

interface Word {
  readonly found: RegExp;
  /** The word of the field that stands for it. */
  readonly instead: string;
  readonly bad: string;
  readonly good: string;
}

/** Words that readers had to translate. CONTRIBUTING.md has the words to use. */
const WORDS: readonly Word[] = [
  {
    found: /\bhand(?:s|ed|ing)?[- ]?over/gi,
    instead: 'handoff, hand off',
    bad: '// The release hands over to the next waiter.',
    good: '// The hand is over the key.',
  },
  {
    found: /\bhand(?:s|ed|ing)? (?:the|a|its) locks? on\b/gi,
    instead: 'hand off',
    bad: '// A release hands the lock on.',
    good: '// A release hands off the lock on its node.',
  },
  {
    found: /\bwhoever\b/gi,
    instead: 'the subject: the holder, any caller, the process that …',
    bad: '// Whoever released it looks again.',
    good: '// Whatever released it, the holder looks again.',
  },
  {
    found: /\bthose who\b/gi,
    instead: 'the subject: waiters, callers, processes that …',
    bad: '// Wakes those who wait.',
    good: '// Wakes those whose claims fit.',
  },
  {
    found: /\bcourtesy\b/gi,
    instead: 'what it does, such as: a wake-up that nothing depends on',
    bad: '// The wake-up is a courtesy.',
    good: '// The wake-up is a hint.',
  },
  {
    found: /\bfarewell\b|\bgoodbye\b/gi,
    instead: 'what is sent or not: a clean shutdown, an immediate restart',
    bad: '// The server ends without a goodbye.',
    good: '// The server ends without a clean shutdown.',
  },
  {
    found: /\bin line\b(?! \d)/gi,
    instead: 'in the queue',
    bad: '// The next in line is granted the lock.',
    good: '// An error in line 3; the inline renewal.',
  },
];

/** Every text of the repository but data of other people. */
function covers(path: string): boolean {
  return path !== SELF && path !== 'package-lock.json' && !path.startsWith('src/generated/');
}

export const wordChecks: readonly Check[] = WORDS.map(({ found, instead, bad, good }) => ({
  rule: `no "${found.source}": ${instead}`,
  covers,
  find: (file) =>
    [...file.text.matchAll(found)].map((match) => at(file, match.index, `"${match[0]}": write ${instead}`)),
  bad: { path: 'src/a.ts', text: bad },
  good: { path: 'src/a.ts', text: good },
}));
