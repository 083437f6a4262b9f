import { LineFullError, ModeMismatchError, StoreError } from '../../errors.ts';
import { claimScript, releaseScript, renewScript } from '../../generated/redis-scripts.ts';
import type { Instant } from '../../hold/validity.ts';
import type { ClaimOutcome, ClaimRef, ClaimRequest, RenewChange, RenewOutcome } from '../../store/store.ts';
import type { Operation } from './batch.ts';
import type { Refusal } from './entering.ts';
import { failureOf } from './failure.ts';
import type { Keys } from './keys.ts';
import { modeIn, modeText } from './mode-text.ts';

/** The calls of the scripts; each file in `scripts/` says what its keys, arguments and answers are. */

/** What a claim needs to know of its store besides the request. */
export interface ClaimContext {
  readonly lineMax: number;
  /** Where the asker can be reached now; `-` for nowhere. */
  channel(): string;
  onGranted(request: ClaimRequest): void;
  onFailed(request: ClaimRequest): void;
  /** The server's clock said this, at or after the moment when we asked. */
  onServerTime(serverMs: number, sentAt: Instant): void;
  /** When to ask again, from what the script says of the holder. */
  retryAfterMs(request: ClaimRequest, refusal: Refusal): number;
}

export function claimOperation(keys: Keys, context: ClaimContext): Operation<ClaimRequest, ClaimOutcome> {
  // The fence that was granted last is what the next claim has to stay above, and to write a bigint takes long.
  let last = { fence: 0n, text: '0' };
  return {
    script: claimScript,
    isTimed: () => context.channel() !== '-',
    keyCount: (items) => items * 3 + 1,
    encode(items, command) {
      command.push(keys.counter);
      for (const { request } of items) keys.push(command, request.name);
      let fenceAbove = 0n;
      let hasNotes = false;
      for (const { request } of items) {
        if (request.fenceAbove > fenceAbove) fenceAbove = request.fenceAbove;
        hasNotes ||= request.note !== '';
      }
      command.push(fenceAbove === last.fence ? last.text : `${fenceAbove}`);
      const line = `${context.lineMax} ${context.channel()}`;
      const [first] = items;
      if (items.length === 1 && first?.request.mode.kind === 'exclusive' && !hasNotes) {
        const { ttlMs, wait, id } = first.request;
        command.push(`${ttlMs}`, id);
        if (wait) command.push(line);
        return;
      }
      command.push(line);
      for (const { request } of items) {
        command.push(`${modeText(request.mode)} ${request.ttlMs} ${request.wait ? '1' : '0'} ${request.id}`);
      }
      if (hasNotes) for (const { request } of items) command.push(request.note);
    },
    decode(request, answer, { sentAt }) {
      const text = textOf(answer);
      if (isDigit(text)) {
        context.onGranted(request);
        // By way of a number, which the scripts count in too: reading the text as a bigint takes three times as long.
        last = { fence: BigInt(Number(text)), text };
        return { granted: true, fence: last.fence, validForMs: request.ttlMs };
      }
      const rest = text.slice(2);
      switch (text[0]) {
        case 'w': {
          const [firstEndsMs = '-1', serverMs = '0', marks = ''] = rest.split(' ');
          const refusal = { firstEndsMs: Number(firstEndsMs), marks };
          if (sentAt !== null) context.onServerTime(Number(serverMs), sentAt);
          return { granted: false, retryAfterMs: context.retryAfterMs(request, refusal) };
        }
        case 'm':
          throw new ModeMismatchError(request.name, request.mode, modeIn(rest));
        case 'l':
          throw new LineFullError(request.name, context.lineMax);
        default:
          throw new StoreError(`Redis gave an answer that is not ours: ${text.slice(0, 80)}`, {
            applied: 'unknown',
          });
      }
    },
    onFailed: (request) => context.onFailed(request),
  };
}

export interface RenewRequest extends ClaimRef {
  readonly change: RenewChange;
}

export function renewOperation(keys: Keys): Operation<RenewRequest, RenewOutcome> {
  return {
    script: renewScript,
    isTimed: () => false,
    keyCount: (items) => items * 3,
    encode(items, command) {
      for (const { request } of items) keys.push(command, request.name);
      let hasNotes = false;
      for (const { request } of items) {
        const { ttlMs, note } = request.change;
        command.push(`${ttlMs} ${note === undefined ? '0' : '1'} ${request.id}`);
        hasNotes ||= note !== undefined;
      }
      if (hasNotes) for (const { request } of items) command.push(request.change.note ?? '');
    },
    decode: ({ change }, answer) =>
      textOf(answer) === '1' ? { held: true, validForMs: change.ttlMs } : { held: false },
  };
}

export interface ReleaseRequest extends ClaimRef {
  readonly evict: boolean;
  /** It had to wait itself. Where one has, another one is likely to. */
  readonly hasWaited: boolean;
}

/** `onHandedOver`: somebody was granted the lock and has to confirm it. */
export function releaseOperation(
  keys: Keys,
  onHandedOver: (name: string) => void,
): Operation<ReleaseRequest, boolean> {
  return {
    script: releaseScript,
    isTimed: () => false,
    keyCount: (items) => items * 3 + 1,
    encode(items, command) {
      command.push(keys.counter);
      for (const { request } of items) keys.push(command, request.name);
      const [first] = items;
      if (items.length === 1 && first !== undefined) {
        command.push(first.request.id, first.request.evict ? '1' : '0');
        return;
      }
      for (const { request } of items) command.push(`${request.evict ? '1' : '0'}${request.id}`);
    },
    isAwaited: (items) => items.some(({ request }) => request.hasWaited),
    decode({ name }, answer, { isRepeat }) {
      const text = textOf(answer);
      const isRemoved = text !== '0';
      if (text === '2') onHandedOver(name);
      // Gone, perhaps by our own first sending: the core knows what that means, we do not.
      if (!isRemoved && isRepeat) {
        throw new StoreError('Redis: the connection broke, and the answer to a release was lost', {
          applied: 'unknown',
        });
      }
      return isRemoved;
    },
  };
}

function isDigit(text: string): boolean {
  const code = text.charCodeAt(0);
  return code >= 48 && code <= 57;
}

/** One item of a batch may fail alone. */
export function textOf(answer: unknown): string {
  const text = String(answer);
  if (text[0] === '!') throw failureOf(new Error(text.slice(1)));
  return text;
}
