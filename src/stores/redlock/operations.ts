import { mergeScript, voteScript, withdrawScript } from '../../generated/redlock-scripts.ts';
import type { ClaimRef } from '../../store/store.ts';
import type { Keys } from '../redis/keys.ts';
import { modeIn, modeText } from '../redis/mode-text.ts';
import { textOf, unexpected } from '../redis/operations.ts';
import type { Operation } from '../redis/script-batch.ts';
import type { NodeVote, VoteRequest } from './node.ts';

/** The calls of the scripts. Each file in `scripts/` describes its keys, arguments and replies. */

export function voteOperation(keys: Keys): Operation<VoteRequest, NodeVote> {
  return {
    keys,
    script: voteScript,
    encode(requests, command) {
      let hasNotes = false;
      for (const request of requests) {
        const { mode, ttlMs, proposed, id, note } = request;
        command.push(`${modeText(mode)} ${ttlMs} ${proposed} ${id}`);
        hasNotes ||= note !== '';
      }
      if (hasNotes) for (const request of requests) command.push(request.note);
    },
    decode: (_request, answer) => voteIn(textOf(answer)),
  };
}

function voteIn(text: string): NodeVote {
  const rest = text.slice(2);
  if (text[0] === 'g' || text[0] === 'k')
    return { granted: true, fence: BigInt(rest), isKept: text[0] === 'k' };
  if (text[0] === 'm') return { granted: false, mismatch: modeIn(rest) };
  const [ends = '-1', kind = 'f'] = rest.split(' ', 2);
  const holder = rest.slice(ends.length + kind.length + 2);
  const endsMs = Number(ends) < 0 ? null : Number(ends);
  return { granted: false, endsMs, holder, isForeign: kind === 'f' };
}

export interface MergeRequest extends ClaimRef {
  readonly fence: bigint;
}

export function mergeOperation(keys: Keys): Operation<MergeRequest, bigint | null> {
  return {
    keys,
    script: mergeScript,
    encode(requests, command) {
      for (const request of requests) command.push(`${request.fence} ${request.id}`);
    },
    decode(_request, answer) {
      const text = textOf(answer);
      return text === '0' ? null : BigInt(text);
    },
  };
}

export function withdrawOperation(keys: Keys): Operation<ClaimRef, boolean> {
  return {
    keys,
    script: withdrawScript,
    encode(requests, command) {
      for (const request of requests) command.push(request.id);
    },
    decode(_request, answer) {
      const text = textOf(answer);
      if (text !== '0' && text !== '1') throw unexpected('withdraw', text);
      return text === '1';
    },
  };
}
