import type { Use } from '../../use.ts';
import type { ClaimView, LockView } from '../../view.ts';
import { ownerText } from '../lock-text.ts';
import { copyable } from '../text.ts';

type State = 'held' | 'waiting' | 'done';

/** One claim, or a finished run that is remembered. */
interface Known {
  readonly state: State;
  readonly name: string;
  readonly use: Use;
  readonly claim: ClaimView | null;
}

export interface Change {
  readonly change: State | 'gone';
  readonly name: string;
  readonly use: Use;
  readonly claim: ClaimView | null;
}

const KNOWN_MAX = 100_000;

/**
 * Compares each scan with the one before. A claim that came and went between two scans is not seen.
 */
export class Changes {
  #known: ReadonlyMap<string, Known> = new Map();

  /** The changes since the last call. `isTruncated`: locks may be missing in this scan. */
  next(views: readonly LockView[], isTruncated: boolean): Change[] {
    const before = this.#known;
    const now = new Map(views.flatMap(knownOf));
    const gone = [...before].filter(([key]) => !now.has(key) && !isTruncated);
    const fresh = [...now].filter(([key, { state }]) => before.get(key)?.state !== state);
    this.#known = isTruncated ? merged(before, now) : now;
    return [
      ...gone.map(([, { state: _, ...known }]) => ({ change: 'gone' as const, ...known })),
      ...fresh.map(([, { state, ...known }]) => ({ change: state, ...known })),
    ];
  }
}

/** What a cut scan did not show may still be there. The oldest are forgotten beyond a limit. */
function merged(before: ReadonlyMap<string, Known>, now: ReadonlyMap<string, Known>): Map<string, Known> {
  const unseen = [...before].filter(([key]) => !now.has(key));
  return new Map([...unseen, ...now].slice(-KNOWN_MAX));
}

function knownOf({ name, use, done, holders, waiters }: LockView): [string, Known][] {
  const entry = (state: State, claim: ClaimView | null): [string, Known] => [
    JSON.stringify([use, name, claim?.id ?? null]),
    { state, name, use, claim },
  ];
  return [
    ...(done ? [entry('done', null)] : []),
    ...holders.map((claim) => entry('held', claim)),
    ...waiters.map((claim) => entry('waiting', claim)),
  ];
}

/** `held     deploy  web-1  fence 7  claim web-1#x.0` */
export function changeLine({ change, name, use, claim }: Change): string {
  const parts = [`${change.padEnd(7)}  ${copyable(name)}`];
  if (use !== 'lock') parts.push(use);
  if (claim !== null) {
    parts.push(ownerText(claim));
    if (claim.fence !== null) parts.push(`fence ${claim.fence}`);
    parts.push(`claim ${copyable(claim.id)}`);
  }
  return parts.join('  ');
}
