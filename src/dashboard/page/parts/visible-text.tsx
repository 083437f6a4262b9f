import type { ComponentChildren } from 'preact';

/**
 * Characters that a reader cannot see, or that rearrange the text around them: controls, direction
 * overrides, zero-width characters, unusual spaces, lone surrogates. Names, owners and metadata
 * come from other programs, and two that look alike must not be mistaken for each other.
 */
const SPACES = '\\u00a0\\u1680\\u2000-\\u200a\\u202f\\u205f\\u3000\\u115f\\u1160\\u3164\\uffa0';
const HIDDEN = new RegExp(`[\\p{Cc}\\p{Cf}\\p{Cs}\\p{Co}\\p{Zl}\\p{Zp}${SPACES}]`, 'gu');

/** Joins the parts of one emoji, and is not hidden there. */
const IN_EMOJI =
  /\p{Extended_Pictographic}\ufe0f?[\u{1f3fb}-\u{1f3ff}]?\u200d(?=\p{Extended_Pictographic})/gu;

function escaped(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`;
}

interface Part {
  readonly text: string;
  readonly isEscape: boolean;
}

function partsOf(value: string): Part[] {
  const parts: Part[] = [];
  const kept = new Set<number>();
  for (const match of value.matchAll(IN_EMOJI)) kept.add(match.index + match[0].length - 1);
  let from = 0;
  for (const match of value.matchAll(HIDDEN)) {
    if (kept.has(match.index)) continue;
    if (match.index > from) parts.push({ text: value.slice(from, match.index), isEscape: false });
    parts.push({ text: escaped(match[0]), isEscape: true });
    from = match.index + match[0].length;
  }
  if (from < value.length) parts.push({ text: value.slice(from), isEscape: false });
  return parts;
}

/** The text with every hidden character written as an escape. */
export function visible(value: string): string {
  return partsOf(value)
    .map((part) => part.text)
    .join('');
}

/** Text of another program: isolated from the direction of its surroundings, hidden characters marked. */
export function VisibleText({ value, class: name }: { value: string; class?: string }) {
  const parts = partsOf(value);
  const isPlain = parts.length === 1 && parts[0]?.isEscape === false;
  const children: ComponentChildren = isPlain
    ? value
    : parts.map((part, n) =>
        part.isEscape ? (
          <span key={n} class="escape">
            {part.text}
          </span>
        ) : (
          part.text
        ),
      );
  return (
    <bdi class={name} title={visible(value)}>
      {children}
    </bdi>
  );
}
