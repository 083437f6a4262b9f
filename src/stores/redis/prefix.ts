import { InvalidArgumentError } from '../../errors.ts';

/** Throws `InvalidArgumentError` for what cannot stand before every key. */
export function checkPrefix(prefix: string | undefined): void {
  if (prefix !== undefined && (typeof prefix !== 'string' || Buffer.byteLength(prefix) > 256)) {
    throw new InvalidArgumentError('prefix', 'must be a string of at most 256 bytes');
  }
}
