import { checkCount } from '../checks.ts';
import { DEFAULTS } from '../options.ts';

const LINE_MAX = 2 ** 24;

/** How many may wait for one lock: as asked, or the default. Without a bound a line could fill the memory of its store. */
export function lineMaxOf(options: { readonly lineMax?: number | undefined }): number {
  return checkCount('lineMax', options.lineMax ?? DEFAULTS.lineMax, 1, LINE_MAX);
}
