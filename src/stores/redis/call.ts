import { onAbort } from '../../hold/abort.ts';
import type { Script } from './batch.ts';
import { failureOf, isNoScript, outOfTime } from './failure.ts';
import type { Gate } from './gate.ts';

/** One command, or one script that is not worth batching, with the same promises as a batch. `beside`: a command without keys goes where this key is. */
export async function sendAlone(
  gate: Gate,
  name: string,
  args: string[],
  signal: AbortSignal | undefined,
  beside?: string,
): Promise<unknown> {
  await gateOpen(gate, signal);
  return await raced(
    gate.link.send(name, args, beside).catch((error: unknown) => {
      throw failureOf(error);
    }),
    () => outOfTime(true, gate.link),
    signal,
  );
}

export async function runAlone(
  gate: Gate,
  script: Script,
  keys: readonly string[],
  args: readonly string[],
  signal: AbortSignal | undefined,
): Promise<unknown> {
  const rest = [`${keys.length}`, ...keys, ...args];
  try {
    return await sendAlone(gate, 'evalsha', [script.sha, ...rest], signal);
  } catch (error) {
    if (!isNoScript((error as Error).cause)) throw error;
    return await sendAlone(gate, 'eval', [script.text, ...rest], signal);
  }
}

async function gateOpen(gate: Gate, signal: AbortSignal | undefined): Promise<void> {
  if (gate.isOpen) return;
  const open = new Promise<void>((resolve, reject) => {
    gate.onceOpen((refusal) => (refusal === null ? resolve() : reject(refusal)));
  });
  await raced(open, () => outOfTime(false, gate.link), signal ?? gate.limit());
}

async function raced<T>(work: Promise<T>, failure: () => Error, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return await work;
  return await new Promise<T>((resolve, reject) => {
    const stop = onAbort(signal, () => reject(failure()));
    if (signal.aborted) reject(failure());
    work.then(resolve, reject).finally(stop);
  });
}
