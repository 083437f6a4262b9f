import { StoreError } from '../errors.ts';

/** Waits for the work for at most `ms` and ignores its outcome. For clean-up. */
export async function giveUpAfter(ms: number, work: Promise<unknown>): Promise<void> {
  await Promise.race([work.catch(() => {}), new Promise((resolve) => setTimeout(resolve, ms).unref())]);
}

/**
 * Settles as the work does, or rejects with a `StoreError` when the work takes longer than `ms`: a
 * client library may wait for its server for ever.
 */
export async function rejectAfter<T>(ms: number, work: Promise<T>): Promise<T> {
  const late = new Promise<never>((_resolve, reject) => {
    setTimeout(
      () => reject(new StoreError(`The store did not answer in ${ms / 1000} s`, { applied: 'unknown' })),
      ms,
    ).unref();
  });
  return await Promise.race([work, late]);
}
