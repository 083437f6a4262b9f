import { Batch } from '../../src/stores/shared/batch.ts';
import type { Answer, BatchOptions, CallInfo } from '../../src/stores/shared/batch-options.ts';
import { virtualClock } from '../../src/testing/index.ts';

/** One call, as the test's backend receives it. */
interface SeenCall {
  readonly requests: readonly string[];
  readonly info: CallInfo;
  answer(answers?: readonly Answer<string>[]): void;
  fail(error: Error): void;
}

/** A batch over a backend whose calls the test answers by hand. */
export function batchStage(options: Partial<BatchOptions<string, string>> = {}) {
  const clock = virtualClock();
  const calls: SeenCall[] = [];
  const batch = new Batch<string, string>({
    clock,
    itemsMax: 4,
    callsMax: 2,
    send: (requests, info) =>
      new Promise((resolve, reject) => {
        const answer = (answers = requests.map((request) => ({ value: `${request}!` }))): void =>
          resolve(answers);
        calls.push({ requests, info, answer, fail: reject });
      }),
    errors: {
      notSent: () => new Error('not sent'),
      noAnswer: () => new Error('no answer'),
      failed: (error) => new Error('failed', { cause: error }),
    },
    ...options,
  });
  const sent = (): string[] => calls.map(({ requests }) => requests.join(''));
  const call = (position: number): SeenCall => {
    const found = calls[position];
    if (found === undefined) throw new Error(`call ${position} was not made; so far: ${sent()}`);
    return found;
  };
  /** Resolves to the outcome of each request. */
  const outcome = (promise: Promise<string>): Promise<string> =>
    promise.catch((error: Error) => error.message);
  return { clock, batch, sent, call, outcome };
}
