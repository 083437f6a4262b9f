import type { Clock } from '../../clock.ts';
import { type Instant, instant } from '../../store/validity.ts';
import { Batch } from '../shared/batch.ts';
import type { Answer, CallInfo, Send } from '../shared/batch-options.ts';
import { failureOf, isFromReplica, isNoScript, outOfTime } from './failure.ts';
import { ABANDONED_MAX, type ReadinessCheck } from './readiness-check.ts';

export interface Script {
  readonly sha: string;
  readonly text: string;
}

/** One operation: how its requests become one call of a script, and the replies become results. */
export interface Operation<Request, Result> {
  readonly script: Script;
  /** Whether `decode` needs the time of sending. It costs two reads of the clock. */
  isTimed(): boolean;
  keyCount(items: number): number;
  /** Adds the keys and arguments of all requests to the command. */
  encode(requests: readonly Request[], command: string[]): void;
  /** Another process is likely to wait for the effect of these requests. */
  isAwaited?(requests: readonly Request[]): boolean;
  /** Throws a `HoldfastError` for a reply that is an error. */
  decode(request: Request, answer: unknown, sending: Sending): Result;
}

/** How the request of a reply was sent. */
export interface Sending {
  /** `null` where the operation is not timed. */
  readonly sentAt: Instant | null;
  /** The client may have sent the request twice, and this may be the second reply. */
  readonly isRepeat: boolean;
}

const ITEMS_MAX = 128;
const CALLS_MAX = 8;
/**
 * Two calls of half the requests keep the server at work on one while this process prepares the
 * other. With 32 instead of 4, 10 tasks made 26,500 pairs a second instead of 36,900
 * (`npm run bench -- redis ten`).
 */
const HALVE_ABOVE = 4;

/** A batch that makes calls of one script. `keepsSent`: as for every batch. */
export function scriptBatch<Request, Result>(
  readiness: ReadinessCheck,
  clock: Clock,
  operation: Operation<Request, Result>,
  { keepsSent = false }: { readonly keepsSent?: boolean } = {},
): Batch<Request, Result> {
  const { send } = new ScriptCalls(readiness, clock, operation);
  return new Batch<Request, Result>({
    clock,
    itemsMax: ITEMS_MAX,
    callsMax: CALLS_MAX,
    abandonedMax: ABANDONED_MAX,
    halveAbove: HALVE_ABOVE,
    sendsAtOnce: true,
    keepsSent,
    send,
    isReady: () => readiness.isOpen,
    whenReady: (callback) => void readiness.whenReady(callback),
    onNoAnswer: () => readiness.onNoAnswer(),
    errors: {
      notSent: () => outOfTime(false, readiness.connection),
      noAnswer: () => outOfTime(true, readiness.connection),
      failed: failureOf,
    },
  });
}

class ScriptCalls<Request, Result> {
  readonly #readiness: ReadinessCheck;
  readonly #clock: Clock;
  readonly #operation: Operation<Request, Result>;

  constructor(readiness: ReadinessCheck, clock: Clock, operation: Operation<Request, Result>) {
    this.#readiness = readiness;
    this.#clock = clock;
    this.#operation = operation;
  }

  readonly send: Send<Request, Result> = (requests, call) => {
    const { connection } = this.#readiness;
    const { breaks } = connection;
    const { script, isAwaited } = this.#operation;
    const sentAt = this.#operation.isTimed() ? instant(this.#clock) : null;
    const sending = (): Sending => ({ sentAt, isRepeat: connection.breaks !== breaks });
    const args = this.#argumentsOf(script.sha, requests);
    const sent =
      connection.sendYielding !== undefined && isAwaited?.(requests) === true
        ? connection.sendYielding('evalsha', args)
        : connection.send('evalsha', args);
    return sent.then(
      (reply) => this.#answersIn(reply, requests, sending()),
      async (error: unknown) => {
        if (isNoScript(error)) return await this.#sendText(requests, call, sending);
        this.#onError(error);
        throw error;
      },
    );
  };

  /**
   * The server does not know the script, and has done nothing. Requests that were given up
   * meanwhile are left out.
   */
  async #sendText(
    requests: readonly Request[],
    call: CallInfo,
    sending: () => Sending,
  ): Promise<readonly Answer<Result>[]> {
    const positions = [...requests.keys()].filter((position) => call.isWanted(position));
    const wanted = positions.map((position) => requests[position] as Request);
    if (wanted.length === 0) return [];
    const { script } = this.#operation;
    const reply = await this.#readiness.connection.send('eval', this.#argumentsOf(script.text, wanted));
    const answers: Answer<Result>[] = [];
    for (const [n, answer] of this.#answersIn(reply, wanted, sending()).entries()) {
      answers[positions[n] as number] = answer;
    }
    return answers;
  }

  /** `script`: its text or its SHA-1. */
  #argumentsOf(script: string, requests: readonly Request[]): string[] {
    const args = [script, `${this.#operation.keyCount(requests.length)}`];
    this.#operation.encode(requests, args);
    return args;
  }

  /** For one item the reply is not a list, because clients parse a list slowly. */
  #answersIn(reply: unknown, requests: readonly Request[], sending: Sending): Answer<Result>[] {
    const answers: readonly unknown[] = Array.isArray(reply) ? reply : [reply];
    return requests.map((request, position) => {
      try {
        return { value: this.#operation.decode(request, answers[position], sending) };
      } catch (error) {
        this.#onError((error as Error).cause);
        return { error: error as Error };
      }
    });
  }

  #onError(error: unknown): void {
    if (isFromReplica(error)) this.#readiness.connection.onReplica?.();
  }
}
