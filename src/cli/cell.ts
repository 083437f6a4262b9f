/** Characters that take two columns of a terminal: East Asian wide ones, and most pictures. */
const WIDE = new RegExp(
  [
    '[\\u1100-\\u115f\\u2e80-\\u303e\\u3041-\\ua4cf\\ua960-\\ua97f\\uac00-\\ud7a3\\uf900-\\ufaff]',
    '[\\ufe30-\\ufe6f\\uff00-\\uff60\\uffe0-\\uffe6]',
    '[\\u{16fe0}-\\u{18aff}\\u{1b000}-\\u{1b2ff}\\u{1f200}-\\u{1f2ff}\\u{20000}-\\u{3fffd}]',
    '\\p{Emoji_Presentation}',
  ].join('|'),
  'u',
);
/** Characters that are drawn over the one before. */
const COMBINING = /^\p{M}$/u;

function characterWidth(character: string): number {
  if (COMBINING.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** How many columns of a terminal the text takes. It must be printable. */
export function textWidth(text: string): number {
  let width = 0;
  for (const character of text) width += characterWidth(character);
  return width;
}

/** The text in exactly `width` columns: cut with an ellipsis, or padded. */
export function fitted(text: string, width: number, align: 'left' | 'right' = 'left'): string {
  const own = textWidth(text);
  if (own > width) return cut(text, width);
  const space = ' '.repeat(width - own);
  return align === 'left' ? text + space : space + text;
}

function cut(text: string, width: number): string {
  if (width < 1) return '';
  let result = '';
  let used = 0;
  for (const character of text) {
    const own = characterWidth(character);
    if (used + own > width - 1) break;
    result += character;
    used += own;
  }
  return `${result}…${' '.repeat(width - used - 1)}`;
}

/** The text in lines of at most `width` columns; all but the first are indented. */
export function wrapped(text: string, width: number, indent: string): string[] {
  const lines: string[] = [];
  let line = '';
  for (const character of text) {
    if (textWidth(line + character) > width && line !== indent) {
      lines.push(line);
      line = indent;
    }
    line += character;
  }
  return [...lines, line];
}
