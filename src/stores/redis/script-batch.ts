import type { Clock } from '../../clock.ts';
import { type Instant, instant } from '../../store/validity.ts';
import { Batch } from '../shared/batch.ts';
import { isFromReplica, isNoScript } from './failure.ts';
import type { Keys } from './keys.ts';
import type { ReadinessCheck } from './readiness-check.ts';

export interface Script {
  readonly sha: string;
  readonly text: string;
}

/** How requests become one call of a script, and its replies become results. */
export interface Operation<Request extends { readonly name: string }, Result> {
  readonly script: Script;
  readonly keys: Keys;
  /** The first key of the script is the counter of fences. Default true. */
  readonly hasCounter?: boolean;
  /** As for every batch. */
  readonly keepsSent?: boolean;
  /** Adds the arguments of all requests to the command. */
  encode(requests: readonly Request[], command: string[]): void;
  /** Another process is likely to wait for the effect of these requests. */
  isAwaited?(requests: readonly Request[]): boolean;
  /** Throws a `HoldfastError` for a reply that is an error. */
  decode(request: Request, answer: unknown, sending: Sending): Result;
}

/** How the request of a reply was sent. */
export interface Sending {
  readonly sentAt: Instant;
  /** The client may have sent the request twice, and this may be the second reply. */
  readonly isRepeat: boolean;
}

const KEYS_PER_LOCK = 3;
const ITEMS_MAX = 128;
const CALLS_MAX = 8;
/**
 * The server works on one call while this process prepares the other. With 32 instead of 4, 10
 * tasks made 26,500 pairs a second instead of 36,900 (`npm run bench -- redis ten`).
 */
const HALVE_ABOVE = 4;

/** A batch that makes calls of one script. */
export function scriptBatch<Request extends { readonly name: string }, Result>(
  readiness: ReadinessCheck,
  clock: Clock,
  operation: Operation<Request, Result>,
): Batch<Request, Result> {
  const { connection } = readiness;
  const { script, keepsSent = false } = operation;
  /** The server did not know the script of the last call: the next one sends its text. */
  let isUnknown = false;
  const onError = (error: unknown): void => {
    if (isFromReplica(error)) connection.onReplica?.();
  };
  return new Batch<Request, Result>({
    ...readiness.batchOptions(),
    itemsMax: ITEMS_MAX,
    callsMax: CALLS_MAX,
    halveAbove: HALVE_ABOVE,
    keepsSent,
    send(requests) {
      const { breaks } = connection;
      const sentAt = instant(clock);
      const name = isUnknown ? 'eval' : 'evalsha';
      const args = argumentsOf(operation, isUnknown ? script.text : script.sha, requests);
      isUnknown = false;
      const sent =
        connection.sendYielding !== undefined && operation.isAwaited?.(requests) === true
          ? connection.sendYielding(name, args)
          : connection.send(name, args);
      return sent.then(
        (reply) => {
          const sending = { sentAt, isRepeat: connection.breaks !== breaks };
          // For one item the reply is not a list, because clients parse a list slowly.
          const answers: readonly unknown[] = Array.isArray(reply) ? reply : [reply];
          return requests.map((request, position) => {
            try {
              return { value: operation.decode(request, answers[position], sending) };
            } catch (error) {
              onError((error as Error).cause);
              return { error: error as Error };
            }
          });
        },
        (error: unknown) => {
          onError(error);
          if (!isNoScript(error)) throw error;
          isUnknown = true;
          // The client may have sent it before too, to a server that knew the script.
          if (connection.breaks !== breaks) throw new Error('The connection broke before the reply');
          // The server has done nothing.
          return requests.map(() => ({ retryMs: 0 }));
        },
      );
    },
  });
}

/** `script`: its text or its SHA-1. */
function argumentsOf<Request extends { readonly name: string }>(
  { keys, hasCounter = true, encode }: Operation<Request, unknown>,
  script: string,
  requests: readonly Request[],
): string[] {
  const args = [script, `${requests.length * KEYS_PER_LOCK + (hasCounter ? 1 : 0)}`];
  if (hasCounter) args.push(keys.counter);
  for (const request of requests) keys.push(args, request.name);
  encode(requests, args);
  return args;
}
