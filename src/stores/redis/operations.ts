import { ModeMismatchError, QueueFullError, StoreError } from '../../errors.ts';
import { claimScript, releaseScript, renewScript } from '../../generated/redis-scripts.ts';
import type { ClaimRef, ClaimRequest, RenewChange, RenewOutcome } from '../../store/store.ts';
import type { ClaimAnswer, ReleaseAnswer, ReleaseRequest } from '../shared/server-queue-store.ts';
import { failureOf } from './failure.ts';
import type { Keys } from './keys.ts';
import { modeIn, modeText } from './mode-text.ts';
import type { PushedGrantAge } from './pushed-grant-age.ts';
import type { Operation } from './script-batch.ts';

/** Each file in `scripts/` describes its keys, arguments and replies. */

/**
 * `channel`: the channel of this process, or `-` while it is not subscribed. `age` learns the
 * server's clock.
 */
export function claimOperation(
  keys: Keys,
  queueMax: number,
  channel: () => string,
  age: PushedGrantAge,
): Operation<ClaimRequest, ClaimAnswer> {
  return {
    script: claimScript,
    keys,
    // After a reconnect, a client may send a claim again that was given up long ago. The late reply
    // has to reach the core, which removes the claim.
    keepsSent: true,
    encode(requests, command) {
      let fenceAbove = 0n;
      let hasNotes = false;
      for (const request of requests) {
        if (request.fenceAbove > fenceAbove) fenceAbove = request.fenceAbove;
        hasNotes ||= request.note !== '';
      }
      command.push(`${fenceAbove}`);
      const waitArgument = `${queueMax} ${channel()}`;
      const [first] = requests;
      if (requests.length === 1 && first?.mode.kind === 'exclusive' && !hasNotes) {
        const { ttlMs, wait, id } = first;
        command.push(`${ttlMs}`, id);
        if (wait) command.push(waitArgument);
        return;
      }
      command.push(waitArgument);
      for (const request of requests) {
        command.push(`${modeText(request.mode)} ${request.ttlMs} ${request.wait ? '1' : '0'} ${request.id}`);
      }
      if (hasNotes) for (const request of requests) command.push(request.note);
    },
    decode(request, answer, { sentAt }) {
      const text = textOf(answer);
      // The scripts count in numbers too. Parsing the text as a bigint takes three times as long.
      if (DIGIT.test(text)) return { granted: true, fence: BigInt(Number(text)) };
      return refusalIn(text, request, queueMax, (serverMs) => age.set(serverMs, sentAt));
    },
  };
}

const DIGIT = /^\d/;

function refusalIn(
  text: string,
  { name, mode }: ClaimRequest,
  queueMax: number,
  onServerTime: (ms: number) => void,
): ClaimAnswer {
  const rest = text.slice(2);
  switch (text[0]) {
    case 'w': {
      const [firstEndsMs = '-1', serverMs = '0', marks = ''] = rest.split(' ');
      onServerTime(Number(serverMs));
      return {
        granted: false,
        endsInMs: Number(firstEndsMs) < 0 ? null : Number(firstEndsMs),
        isHead: marks.includes('h'),
        isForeign: marks.includes('f'),
      };
    }
    case 'm':
      throw new ModeMismatchError(name, mode, modeIn(rest));
    case 'l':
      throw new QueueFullError(name, queueMax);
    default:
      throw unexpected('claim', text);
  }
}

export interface RenewRequest extends ClaimRef {
  readonly change: RenewChange;
}

export function renewOperation(keys: Keys): Operation<RenewRequest, RenewOutcome> {
  return {
    script: renewScript,
    keys,
    hasCounter: false,
    encode(requests, command) {
      let hasNotes = false;
      for (const request of requests) {
        const { ttlMs, note } = request.change;
        command.push(`${ttlMs} ${note === undefined ? '0' : '1'} ${request.id}`);
        hasNotes ||= note !== undefined;
      }
      if (!hasNotes) return;
      for (const request of requests) command.push(request.change.note ?? '');
      command.push(keys.publish);
    },
    decode({ change }, answer) {
      const text = textOf(answer);
      if (text === '1') return { held: true, validForMs: change.ttlMs };
      if (text === '0') return { held: false };
      throw unexpected('renew', text);
    },
  };
}

export function releaseOperation(keys: Keys): Operation<ReleaseRequest, ReleaseAnswer> {
  return {
    script: releaseScript,
    keys,
    encode(requests, command) {
      const [first] = requests;
      if (requests.length === 1 && first !== undefined) {
        command.push(first.id, first.evict ? '1' : '0');
        return;
      }
      for (const request of requests) command.push(`${request.evict ? '1' : '0'}${request.id}`);
    },
    isAwaited: (requests) => requests.some(({ hasWaited }) => hasWaited),
    decode(_request, answer, { isRepeat }) {
      const text = textOf(answer);
      // Perhaps the client has sent this release twice, and the first one has removed the claim.
      if (text === '0' && isRepeat) {
        throw new StoreError('Redis: the connection broke, and the answer to a release was lost', {
          applied: 'unknown',
        });
      }
      if (text === '1') return 'removed';
      if (text === '2') return 'handed';
      if (text === '0') return 'gone';
      throw unexpected('release', text);
    },
  };
}

/** Something other than the script has replied: what the script has done is not known. */
export function unexpected(script: string, text: string): StoreError {
  const problem = `Redis: unexpected reply from the ${script} script: ${text.slice(0, 80)}`;
  return new StoreError(problem, { applied: 'unknown' });
}

/** The reply for one item. Throws if this item has failed. */
export function textOf(answer: unknown): string {
  const text = String(answer);
  if (text[0] === '!') throw failureOf(new Error(text.slice(1)));
  return text;
}
