import { checkCount } from '../../checks.ts';
import { DEFAULTS } from '../../options.ts';

const QUEUE_MAX = 2 ** 24;

/**
 * How many claims may wait for one lock: the option, or the default. A queue without a bound could
 * fill the memory of the server.
 */
export function queueMaxOf(options: { readonly queueMax?: number | undefined }): number {
  return checkCount('queueMax', options.queueMax ?? DEFAULTS.queueMax, 1, QUEUE_MAX);
}
