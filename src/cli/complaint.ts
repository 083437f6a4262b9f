import { redactor, valuesIn } from './store-url.ts';
import { printable } from './text.ts';

/** Whatever goes wrong, and whoever worded it: no password is printed, and no control character. */
export function presentable(text: string): string {
  const hide = redactor(process.env.HOLDFAST_URL, ...valuesIn(process.argv));
  return hide(text).split('\n').map(printable).join('\n');
}

export function complain(text: string): void {
  process.stderr.write(`holdfast: ${presentable(text)}\n`);
}
