import type { Locks } from '../locks.ts';
import type { Use } from '../use.ts';
import type { LockView } from '../view.ts';
import { fitted } from './cell.ts';
import { nowMs } from './guard-message.ts';
import { duration, type Paint, quoted } from './text.ts';

const EVERY_MS = 1_000;
/** A terminal that does not know its width says 0. */
const COLUMNS = 80;

/**
 * The status line of a terminal during the wait: the holder of the lock, for how long it has held,
 * and how long the wait has taken.
 */
export class WaitStatus {
  readonly #locks: Locks;
  readonly #name: string;
  readonly #use: Use;
  readonly #owner: string;
  readonly #paint: Paint;
  #startedMs = 0;
  #timer: NodeJS.Timeout | null = null;
  #shown = false;

  constructor(locks: Locks, name: string, use: Use, owner: string, paint: Paint) {
    this.#locks = locks;
    this.#name = name;
    this.#use = use;
    this.#owner = owner;
    this.#paint = paint;
  }

  start(): void {
    this.stop();
    this.#startedMs = nowMs();
    this.#timer = setInterval(() => void this.#update(), EVERY_MS);
    this.#timer.unref();
    void this.#update();
  }

  stop(): void {
    if (this.#timer !== null) clearInterval(this.#timer);
    this.#timer = null;
    if (this.#shown) process.stderr.write('\r\u001b[2K');
    this.#shown = false;
  }

  async #update(): Promise<void> {
    const view = await this.#locks.inspect(this.#name, { use: this.#use }).catch(() => null);
    if (this.#timer === null) return;
    const text = describeWait(this.#name, view, this.#owner, nowMs() - this.#startedMs);
    this.#shown = true;
    // A line that wraps could not be erased.
    const line = fitted(text, (process.stderr.columns || COLUMNS) - 1).trimEnd();
    process.stderr.write(`\r\u001b[2K${this.#paint('yellow', line)}`);
  }
}

export function describeWait(name: string, view: LockView | null, owner: string, waitedMs: number): string {
  const parts = [`waiting for ${quoted(name)}, ${duration(waitedMs)}`];
  if (view === null) parts.push('the store does not answer');
  else parts.push(...heldBy(view));
  const ahead = view?.waiters.findIndex((waiter) => waiter.owner === owner) ?? -1;
  if (ahead > 0) parts.push(`${ahead} ahead of us`);
  return parts.join('; ');
}

/**
 * Why one try did not acquire the lock. `view` was read right after the try; `null` when the store
 * did not answer.
 */
export function describeRefusal(name: string, view: LockView | null): string {
  if (view === null) return `${quoted(name)} is held by another process; the store does not say by which`;
  const [who, ...others] = heldBy(view);
  if (who === undefined)
    return view.waiters.length === 0
      ? `${quoted(name)} was held by another process, which has just released it`
      : `${quoted(name)} goes to ${quoted(view.waiters[0]?.owner ?? view.waiters[0]?.id ?? '')} next`;
  const endMs = view.holders[0]?.expiresInMs ?? null;
  const until = endMs === null ? '' : `, ends in ${duration(endMs)} unless renewed`;
  return [`${quoted(name)} is ${who}${until}`, ...others].join('; ');
}

/** `held by "web-1" for 5 s`, and the number of further holders; nothing without a holder. */
function heldBy({ holders }: LockView): string[] {
  const [holder, ...others] = holders;
  if (holder === undefined) return [];
  const since = holder.heldForMs === null ? '' : ` for ${duration(holder.heldForMs)}`;
  const who = `held by ${quoted(holder.owner ?? holder.id)}${since}`;
  return others.length === 0 ? [who] : [who, `and ${others.length} more`];
}
