import { claimScript, releaseScript, renewScript } from '../../generated/redis-scripts.ts';
import type { ClaimRef, ClaimRequest, RenewChange } from '../../store/store.ts';
import type { Operation } from './batch.ts';
import type { Keys } from './keys.ts';
import { modeText } from './mode-text.ts';

/** The calls of the scripts; each file in `scripts/` says what its keys and arguments are. */

export function claimOperation(keys: Keys, lineMax: number, channel: () => string): Operation<ClaimRequest> {
  return {
    script: claimScript,
    encode(requests) {
      let fenceAbove = 0n;
      const all: string[] = [keys.counter];
      const args: string[] = [keys.channelBase, channel(), `${lineMax}`, ''];
      for (const request of requests) {
        const { plain, line, info } = keys.of(request.name);
        all.push(plain, line, info);
        args.push(
          request.id,
          modeText(request.mode),
          `${request.ttlMs}`,
          request.wait ? '1' : '0',
          request.note,
        );
        if (request.fenceAbove > fenceAbove) fenceAbove = request.fenceAbove;
      }
      args[3] = `${fenceAbove}`;
      return { keys: all, args };
    },
    // The first is the server's time.
    answersIn: (reply) => (reply as unknown[]).slice(1),
  };
}

export interface RenewRequest extends ClaimRef {
  readonly change: RenewChange;
}

export function renewOperation(keys: Keys): Operation<RenewRequest> {
  return {
    script: renewScript,
    encode(requests) {
      const all: string[] = [];
      const args: string[] = [];
      for (const { name, id, change } of requests) {
        const { plain, line, info } = keys.of(name);
        all.push(plain, line, info);
        args.push(id, `${change.ttlMs}`, change.note === undefined ? '0' : '1', change.note ?? '');
      }
      return { keys: all, args };
    },
    answersIn: (reply) => reply as unknown[],
  };
}

export interface ReleaseRequest extends ClaimRef {
  readonly evict: boolean;
}

export function releaseOperation(keys: Keys): Operation<ReleaseRequest> {
  return {
    script: releaseScript,
    encode(requests) {
      const all: string[] = [keys.counter];
      const args: string[] = [keys.channelBase];
      for (const { name, id, evict } of requests) {
        const { plain, line, info } = keys.of(name);
        all.push(plain, line, info);
        args.push(id, evict ? '1' : '0');
      }
      return { keys: all, args };
    },
    answersIn: (reply) => reply as unknown[],
  };
}
