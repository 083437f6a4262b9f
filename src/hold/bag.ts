/** Something that can be in a bag. */
export interface Bagged {
  /** Where in its bag it is. */
  place?: number;
}

/**
 * What comes and goes with every lock. Not a `Set`: one that is added to and deleted from all the time is copied every few steps, and the copies keep what was in
 * them alive until the next full collection.
 */
export class Bag<T extends Bagged> {
  readonly all: T[] = [];

  add(thing: T): void {
    thing.place = this.all.push(thing) - 1;
  }

  /** The last takes its place. False when it is not in here. */
  delete(thing: T): boolean {
    const { all } = this;
    const place = thing.place as number;
    if (all[place] !== thing) return false;
    const last = all.pop() as T;
    if (last !== thing) all[place] = last;
    last.place = place;
    return true;
  }
}
