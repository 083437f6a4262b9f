import { hostname } from 'node:os';
import type { Clock } from './clock.ts';

/**
 * The id of a claim contains its owner, so that a reader of the store can name the holder of a lock
 * without a second look-up: `<owner>#<random of this Locks>.<number>`, for example
 * `web-1:4711:k3j9#0f1e2d3c4b5a.2s`.
 */
const OURS = /^(.+)#[0-9a-z]{12}\.[0-9a-z]+(?:\.[0-9]+)?$/s;

/** The owner that the id contains; `null` for the id of a foreign program. */
export function ownerOf(id: string): string | null {
  return OURS.exec(id)?.[1] ?? null;
}

export function defaultOwner(clock: Clock): string {
  // A host name may hold 253 bytes; an owner may not.
  return `${hostname().slice(0, 96)}:${process.pid}:${randomText(clock, 4)}`;
}

/**
 * Numbers the claims of one Locks. Sixty-two random bits distinguish this Locks from every other one, in
 * this process or any other.
 */
export function claimIds(owner: string, clock: Clock): () => string {
  const prefix = `${owner}#${randomText(clock, 12)}.`;
  let count = 0;
  return () => prefix + (count++).toString(36);
}

function randomText(clock: Clock, length: number): string {
  let text = '';
  while (text.length < length) text += Math.floor(clock.random() * 36).toString(36);
  return text;
}
