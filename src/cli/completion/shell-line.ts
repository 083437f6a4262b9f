/** The words of a command line of bash, as far as it is typed. */
export interface ShellLine {
  readonly words: readonly string[];
  /** The last word as it stands on the line, with its quotes and backslashes. */
  readonly raw: string;
}

/** Reads quotes and backslashes as bash does; `$` and other expansions are left as they are. */
export function readLine(line: string): ShellLine {
  const words: string[] = [];
  let word = '';
  let raw = '';
  let quote = '';
  for (let n = 0; n < line.length; n += 1) {
    const character = line[n] ?? '';
    const isSpace = quote === '' && /\s/.test(character);
    if (isSpace && raw !== '') words.push(word);
    if (isSpace) {
      [word, raw] = ['', ''];
      continue;
    }
    raw += character;
    if (character === '\\' && quote !== "'" && n + 1 < line.length) {
      n += 1;
      raw += line[n];
      word += line[n];
    } else if (quote === '' && (character === '"' || character === "'")) quote = character;
    else if (character === quote) quote = '';
    else word += character;
  }
  return { words: [...words, word], raw };
}

const SPECIAL = /[^\p{L}\p{N}_@%+=:,./-]/gu;

/**
 * A candidate as bash must get it: quoted like the word that is being typed. The part up to the
 * last word-break character is left out, because bash replaces only the rest.
 */
export function forBash(text: string, raw: string, wordBreaks: string): string | null {
  const [quote] = /^["']/.exec(raw) ?? [];
  if (quote === "'") return text.includes("'") ? null : text;
  if (quote === '"') return text.replace(/["$`\\]/g, '\\$&');
  const broken = [...raw].findLastIndex(
    (character) => ':=@'.includes(character) && wordBreaks.includes(character),
  );
  const quoted = text.replace(SPECIAL, '\\$&');
  return broken < 0 ? quoted : quoted.slice([...raw].slice(0, broken + 1).join('').length);
}
