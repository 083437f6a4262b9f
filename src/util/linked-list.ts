/** A member of at most one `LinkedList` at a time. */
export interface Linked<T> {
  previous: T | null;
  next: T | null;
  isLinked: boolean;
}

/** A queue from whose middle a member can be removed in constant time. */
export class LinkedList<T extends Linked<T>> {
  #first: T | null = null;
  #last: T | null = null;
  #length = 0;

  get first(): T | null {
    return this.#first;
  }

  get last(): T | null {
    return this.#last;
  }

  get length(): number {
    return this.#length;
  }

  *[Symbol.iterator](): Iterator<T> {
    for (let member = this.#first; member !== null; member = member.next) yield member;
  }

  push(member: T): void {
    member.isLinked = true;
    member.previous = this.#last;
    if (this.#last === null) this.#first = member;
    else this.#last.next = member;
    this.#last = member;
    this.#length += 1;
  }

  unshift(member: T): void {
    member.isLinked = true;
    member.next = this.#first;
    if (this.#first === null) this.#last = member;
    else this.#first.previous = member;
    this.#first = member;
    this.#length += 1;
  }

  /** Does nothing when the member is in no list. */
  delete(member: T): void {
    if (!member.isLinked) return;
    const { previous, next } = member;
    if (previous === null) this.#first = next;
    else previous.next = next;
    if (next === null) this.#last = previous;
    else next.previous = previous;
    // An old member that points to young ones would keep them alive until the next full collection.
    member.previous = null;
    member.next = null;
    member.isLinked = false;
    this.#length -= 1;
  }
}
