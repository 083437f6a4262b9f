import { redactor, valuesIn } from './store-url.ts';
import { printable } from './text.ts';

/** Removes passwords and control characters, whichever program wrote the text. */
export function presentable(text: string): string {
  const hide = redactor(process.env.HOLDFAST_URL, ...valuesIn(process.argv));
  return hide(text).split('\n').map(printable).join('\n');
}

export function reportError(text: string): void {
  process.stderr.write(`holdfast: ${presentable(text)}\n`);
}
