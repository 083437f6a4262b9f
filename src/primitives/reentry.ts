import { AsyncLocalStorage } from 'node:async_hooks';
import type { Core } from '../core.ts';
import { InvalidArgumentError } from '../errors.ts';
import type { GrantHold } from '../hold/hold.ts';
import type { Mode } from '../store/store.ts';

/** A lock that the code running now is inside of. */
interface Inside {
  readonly core: Core;
  readonly hold: GrantHold;
  readonly mode: Mode;
  readonly outer?: Inside | undefined;
}

const context = new AsyncLocalStorage<Inside>();

export function runInside<T>(inside: Inside, fn: () => T): T {
  return context.run({ ...inside, outer: context.getStore() }, fn);
}

/** A second hold on the claim that the code running now is inside of, if there is one. */
export function enclosing(core: Core, name: string, mode: Mode): GrantHold | null {
  for (let inside = context.getStore(); inside !== undefined; inside = inside.outer) {
    if (inside.core !== core || inside.hold.name !== name || inside.hold.remainingMs === 0) continue;
    if (!covers(inside.mode, mode)) {
      throw new InvalidArgumentError(
        'reentrant',
        `cannot widen the hold on ${JSON.stringify(name)}: it would wait for itself`,
      );
    }
    return inside.hold.again();
  }
  return null;
}

function covers(held: Mode, asked: Mode): boolean {
  if (held.kind === 'exclusive') return asked.kind !== 'permits';
  if (held.kind === 'shared') return asked.kind === 'shared';
  return asked.kind === 'permits' && asked.of === held.of && asked.count <= held.count;
}
