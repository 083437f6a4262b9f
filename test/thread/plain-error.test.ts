import { describe, expect, it } from 'vitest';
import {
  ClosedError,
  InvalidArgumentError,
  ModeMismatchError,
  QueueFullError,
  QuorumError,
  StoreError,
  UnsupportedError,
} from '../../src/errors.ts';
import { errorFrom, plainError } from '../../src/thread/plain-error.ts';

const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });

describe('an error that crosses threads', () => {
  it.each([
    new StoreError('No answer', { cause, applied: 'unknown' }),
    new StoreError('No answer', { applied: 'no' }),
    new QuorumError('No majority', [{ node: 'a', answer: 'failed', error: cause }], 'unknown'),
    new QueueFullError('a', 10),
    new ModeMismatchError('a', { kind: 'exclusive' }, { kind: 'permits', count: 1, of: 3 }),
    new UnsupportedError('Not here'),
    new InvalidArgumentError('url', 'must be good'),
    new ClosedError(),
    new RangeError('of another library'),
  ])('stays what it is: %s', (error) => {
    const crossed = errorFrom(structuredClone(plainError(error)));
    expect({ ...crossed, message: crossed.message, stack: crossed.stack }).toEqual({
      ...error,
      message: error.message,
      stack: error.stack,
    });
    expect(crossed.name).toBe(error.name);
    const isOurs = !(error instanceof RangeError);
    expect(crossed.constructor).toBe(isOurs ? error.constructor : Error);
    expect(crossed.cause).toEqual(error.cause);
    expect(crossed.cause).toMatchObject(error.cause === undefined ? {} : { code: 'ECONNREFUSED' });
  });

  it('may be anything that was thrown', () => {
    expect(errorFrom(structuredClone(plainError('text'))).message).toBe('text');
    expect(errorFrom(structuredClone(plainError(undefined))).message).toBe('undefined');
  });
});
