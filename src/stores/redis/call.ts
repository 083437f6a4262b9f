import { onAbort } from '../../util/abort.ts';
import { failureOf, isNoScript, notSent, outOfTime } from './failure.ts';
import type { ReadinessCheck } from './readiness-check.ts';
import type { Script } from './script-batch.ts';

/**
 * One command, or one script that is not worth batching, with the same promises as a batch.
 * `beside`: in a Cluster, a command without keys goes to the node of this key.
 */
export async function sendAlone(
  readiness: ReadinessCheck,
  name: string,
  args: string[],
  signal: AbortSignal | undefined,
  beside?: string,
): Promise<unknown> {
  await untilReady(readiness, signal);
  const { connection } = readiness;
  if (readiness.isSilent) throw notSent('earlier commands have no reply', connection.lastError);
  const sent = connection.send(name, args, beside).catch((error: unknown) => {
    throw failureOf(error);
  });
  const onLimit = (): Error => {
    readiness.abandon(sent);
    return outOfTime(true, connection);
  };
  return await raced(sent, onLimit, signal);
}

export async function runAlone(
  readiness: ReadinessCheck,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const rest = [`${keys.length}`, ...keys, ...args];
  try {
    return await sendAlone(readiness, 'evalsha', [script.sha, ...rest], signal);
  } catch (error) {
    if (!isNoScript((error as Error).cause)) throw error;
    return await sendAlone(readiness, 'eval', [script.text, ...rest], signal);
  }
}

/** Resolves when commands can be sent; rejects with the reason why they cannot. */
export async function untilReady(readiness: ReadinessCheck, signal: AbortSignal | undefined): Promise<void> {
  if (readiness.isOpen) return;
  let cancel = (): void => {};
  const open = new Promise<void>((resolve, reject) => {
    cancel = readiness.whenReady((refusal) => (refusal === null ? resolve() : reject(refusal)));
  });
  try {
    await raced(open, () => outOfTime(false, readiness.connection), signal ?? readiness.limit());
  } finally {
    cancel();
  }
}

/** Resolves when the server has been reached, also if the store refuses to use it. */
export async function untilConnected(readiness: ReadinessCheck, signal: AbortSignal): Promise<void> {
  try {
    await untilReady(readiness, signal);
  } catch (error) {
    if (!readiness.connection.isReady) throw error;
  }
}

async function raced<T>(work: Promise<T>, failure: () => Error, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work;
  return await new Promise<T>((resolve, reject) => {
    const stop = onAbort(signal, () => reject(failure()));
    if (signal.aborted) reject(failure());
    work.then(resolve, reject).finally(stop);
  });
}
