import { hostname } from 'node:os';
import type { Clock } from './clock.ts';

/**
 * The id of a claim contains its owner, so that a reader of the store can name the holder of a lock
 * without a second look-up: `<owner>#<random of this Locks>.<number>`, for example
 * `web-1:4711:k3j9#0f1e2d3c4b5a.2s`. The id of a candidate in an election ends in `-e`: in the store an
 * election is a mutex like any other, and a reader could not tell the two apart.
 */
const OURS = /^(.+)#[0-9a-z]{12}\.[0-9a-z]+(?:\.[0-9]+|-e)?$/s;
/** The number of a claim is written in base 36, which has no hyphen. */
const ELECTION_MARK = '-e';

/** The owner that the id contains; `null` for the id of a foreign program. */
export function ownerOf(id: string): string | null {
  return OURS.exec(id)?.[1] ?? null;
}

/** Whether the id is that of a candidate in an election. */
export function isElectionId(id: string): boolean {
  return id.endsWith(ELECTION_MARK) && OURS.test(id);
}

export function defaultOwner(clock: Clock): string {
  // A host name may hold 253 bytes; an owner may not.
  return `${hostname().slice(0, 96)}:${process.pid}:${randomText(clock, 4)}`;
}

/** The ids of one Locks. */
export interface ClaimIds {
  readonly next: () => string;
  /** For a candidate in an election. */
  readonly nextOfElection: () => string;
}

/**
 * Numbers the claims of one Locks. Sixty-two random bits distinguish this Locks from every other one, in
 * this process or any other.
 */
export function claimIds(owner: string, clock: Clock): ClaimIds {
  const prefix = `${owner}#${randomText(clock, 12)}.`;
  let count = 0;
  const next = (): string => prefix + (count++).toString(36);
  return { next, nextOfElection: () => next() + ELECTION_MARK };
}

function randomText(clock: Clock, length: number): string {
  let text = '';
  while (text.length < length) text += Math.floor(clock.random() * 36).toString(36);
  return text;
}
