import { fitted, textWidth } from './cell.ts';

const UNPRINTABLE = /[\p{C}\p{Zl}\p{Zp}]/gu;

/**
 * Names and owners may contain control sequences, which a terminal would obey: a character that is
 * not printable is shown as its number.
 */
export function printable(text: string): string {
  return text.replace(UNPRINTABLE, numbered);
}

/**
 * Like `printable`, for text that is typed in again: `typed` reads every such text back, also a text
 * that looks like a numbered character itself.
 */
export function copyable(text: string): string {
  return printable(text.replace(/\\(?=u\{)/g, numbered));
}

/**
 * A name or a claim on the command line. Only the escapes of `copyable` have a meaning; every other
 * backslash is just a backslash.
 */
export function typed(text: string): string {
  return text.replace(/\\u\{([0-9a-f]{1,6})\}/gi, (number, hex: string) => {
    const code = Number.parseInt(hex, 16);
    if (code > 0x10ffff) return number;
    const character = String.fromCodePoint(code);
    return character === '\\' || printable(character) !== character ? character : number;
  });
}

function numbered(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

/**
 * The value as JSON, in which the same characters are escaped. JSON.stringify leaves most of them as
 * they are; the line breaks that it adds itself are kept.
 */
export function printableJson(value: unknown, indent = 0): string {
  return JSON.stringify(value, null, indent).replace(UNPRINTABLE, (character) =>
    character === '\n' ? character : character.split('').map(escapedUnit).join(''),
  );
}

/** JSON has escapes for the units of UTF-16 only. */
function escapedUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

export function quoted(text: string): string {
  return `"${copyable(text)}"`;
}

/** `850 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(Math.round(ms), 0)} ms`;
  const seconds = Math.round(ms / 1_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3_600) return joined(Math.floor(seconds / 60), 'min', seconds % 60, 's');
  return joined(Math.floor(seconds / 3_600), 'h', Math.floor((seconds % 3_600) / 60), 'min');
}

function joined(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small === 0 ? `${large} ${largeUnit}` : `${large} ${largeUnit} ${small} ${smallUnit}`;
}

const STYLES = { bold: 1, dim: 2, reverse: 7, red: 31, green: 32, yellow: 33, cyan: 36 } as const;

export type Style = keyof typeof STYLES;

export type Paint = (style: Style, text: string) => string;

/** Colours for a terminal that wants them (https://no-color.org), and none for anything else. */
export function painter(
  stream: { isTTY?: boolean | undefined },
  env: NodeJS.ProcessEnv = process.env,
): Paint {
  const wanted = stream.isTTY === true && !env.NO_COLOR && env.TERM !== 'dumb';
  return (style, text) => (wanted ? `\u001b[${STYLES[style]}m${text}\u001b[0m` : text);
}

/** Pads each column but the last to its widest cell. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows)
    for (const [n, cell] of row.entries()) widths[n] = Math.max(widths[n] ?? 0, textWidth(cell));
  return rows.map((row) =>
    row
      .map((cell, n) => (n === row.length - 1 ? cell : fitted(cell, widths[n] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}
