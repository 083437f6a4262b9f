import { onAbort } from '../../util/abort.ts';
import { isNoScript, outOfTime } from './failure.ts';
import type { ReadinessCheck } from './readiness-check.ts';
import type { Script } from './script-batch.ts';

/** One command. `beside`: in a Cluster, a command without keys goes to the node of this key. */
export function sendAlone(
  readiness: ReadinessCheck,
  name: string,
  args: string[],
  signal: AbortSignal | undefined,
  beside?: string,
): Promise<unknown> {
  return readiness.commands.add({ name, args, beside }, signal ?? readiness.limit());
}

/** One script that is not worth batching. */
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
export async function untilReady(readiness: ReadinessCheck, signal: AbortSignal): Promise<void> {
  if (readiness.isOpen) return;
  const stops: Array<() => void> = [];
  await new Promise<void>((resolve, reject) => {
    const giveUp = (): void => reject(outOfTime(false, readiness.connection));
    stops.push(onAbort(signal, giveUp));
    if (signal.aborted) giveUp();
    stops.push(readiness.whenReady((refusal) => (refusal === null ? resolve() : reject(refusal))));
  }).finally(() => {
    for (const stop of stops) stop();
  });
}

/** Resolves when the server has been reached, also if the store refuses to use it. */
export async function untilConnected(readiness: ReadinessCheck, signal: AbortSignal): Promise<void> {
  try {
    await untilReady(readiness, signal);
  } catch (error) {
    if (!readiness.connection.isReady) throw error;
  }
}
