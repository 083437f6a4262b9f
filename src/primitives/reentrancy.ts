import { AsyncLocalStorage } from 'node:async_hooks';
import type { Core } from '../core.ts';
import { HoldLostError, InvalidArgumentError } from '../errors.ts';
import type { AcquireRequest } from '../hold/acquire.ts';
import { ClaimHold } from '../hold/hold.ts';
import type { Mode } from '../store/store.ts';

/** A lock that the running code is inside of. */
interface Inside {
  readonly core: Core;
  readonly hold: ClaimHold;
  readonly mode: Mode;
  readonly outer?: Inside | undefined;
}

const context = new AsyncLocalStorage<Inside>();

export function runInside<T>(core: Core, mode: Mode, hold: ClaimHold, fn: (hold: ClaimHold) => T): T {
  core.isCallerInside = isInside;
  let outer = context.getStore();
  // A run that plans the next one ends before that: a chain of such runs would grow for ever.
  while (outer?.hold.remainingMs === 0) outer = outer.outer;
  return context.run({ core, hold, mode, outer }, () => fn(hold));
}

/** By the claim, not by the name: code that outlives its hold is not inside the next one. */
function isInside(id: string): boolean {
  for (let inside = context.getStore(); inside !== undefined; inside = inside.outer) {
    if (inside.hold.id === id) return true;
  }
  return false;
}

/** With `reentrant`: a second hold on the claim that the running code is inside of, if there is one. */
export function enclosing(core: Core, { name, mode, settings }: AcquireRequest): ClaimHold | null {
  if (!settings.reentrant) return null;
  core.assertOpen();
  settings.signal?.throwIfAborted();
  let isInside = false;
  for (let inside = context.getStore(); inside !== undefined; inside = inside.outer) {
    if (inside.core !== core || inside.hold.name !== name || inside.hold.remainingMs === 0) continue;
    if (covers(inside.mode, mode)) return new InnerHold(core, ClaimHold.heldOf(inside.hold));
    isInside = true;
  }
  if (!isInside) return null;
  const widens = `cannot widen the hold on ${JSON.stringify(name)}: it would wait for itself`;
  throw new InvalidArgumentError('reentrant', widens);
}

function covers(held: Mode, asked: Mode): boolean {
  if (held.kind === 'exclusive') return asked.kind !== 'permits';
  if (held.kind === 'shared') return asked.kind === 'shared';
  return asked.kind === 'permits' && asked.of === held.of && asked.count <= held.count;
}

/** A second hold on a claim. Releasing it does not release the claim. */
class InnerHold extends ClaimHold {
  #released = false;
  #heldForMs: number | null = null;

  override get remainingMs(): number {
    return this.#released ? 0 : super.remainingMs;
  }

  override get heldForMs(): number {
    return this.#heldForMs ?? super.heldForMs;
  }

  override assertHeld(): void {
    if (this.#released) throw new HoldLostError(this.name, this.fence, 'released');
    super.assertHeld();
  }

  override async extend(ttlMs?: number): Promise<void> {
    this.assertHeld();
    await super.extend(ttlMs);
  }

  override async release(): Promise<boolean> {
    const held = this.remainingMs > 0;
    this.#heldForMs ??= this.heldForMs;
    this.#released = true;
    return held;
  }
}
