import type { Clock, Timer } from '../../clock.ts';
import { LocalLines } from '../local-lines.ts';
import type { QuorumNode } from './node.ts';

/** After the first node's word, so long for the others': a lock is free when a majority says so. */
const MAJORITY_MS = 10;

/** One lock that somebody here waits for. */
interface Watched {
  readonly watches: Promise<readonly AsyncDisposable[]>;
  /** Nodes that have told of a release since the last wake-up. */
  readonly told: Set<QuorumNode>;
  timer: Timer | null;
  waiting: number;
}

/**
 * Who waits in this process. All nodes are listened to; a release wakes the first who waits here, and only that one, once a majority of the nodes has told of it.
 * Between processes there is no order.
 */
export class Waiters {
  readonly lines: LocalLines;
  readonly #nodes: readonly QuorumNode[];
  readonly #majority: number;
  readonly #clock: Clock;
  readonly #watched = new Map<string, Watched>();

  constructor(nodes: readonly QuorumNode[], majority: number, clock: Clock) {
    this.#nodes = nodes;
    this.#majority = majority;
    this.#clock = clock;
    this.lines = new LocalLines(clock);
  }

  /** Resolves when a majority of the nodes is listened to, or as many as can be. */
  async add(name: string, id: string, wake: () => void): Promise<AsyncDisposable> {
    const leave = this.lines.add(name, id, wake);
    const watched = this.#watched.get(name) ?? this.#watch(name);
    watched.waiting += 1;
    let isOver = false;
    const end = async (): Promise<void> => {
      if (isOver) return;
      isOver = true;
      leave();
      watched.waiting -= 1;
      if (watched.waiting === 0) this.#unwatch(name, watched);
    };
    await watched.watches;
    return { [Symbol.asyncDispose]: end };
  }

  clear(): void {
    this.lines.clear();
    for (const [name, watched] of [...this.#watched]) this.#unwatch(name, watched);
  }

  #watch(name: string): Watched {
    const told = new Set<QuorumNode>();
    const watches = this.#nodes.map((node) =>
      node.watch({ name }, (mayFree) => {
        if (mayFree) this.#onTold(name, node);
      }),
    );
    const watched: Watched = { watches: this.#firstOf(watches), told, timer: null, waiting: 0 };
    this.#watched.set(name, watched);
    return watched;
  }

  /** A node that cannot be reached holds nobody up; its watch is disposed of with the others when it comes after all. */
  async #firstOf(watches: readonly Promise<AsyncDisposable>[]): Promise<readonly AsyncDisposable[]> {
    let open = 0;
    await new Promise<void>((resolve) => {
      let settled = 0;
      const settle = (isOpen: boolean) => (): void => {
        settled += 1;
        if (isOpen) open += 1;
        if (open >= this.#majority || settled === watches.length) resolve();
      };
      for (const watch of watches) watch.then(settle(true), settle(false));
    });
    return watches.map((watch) => ({
      [Symbol.asyncDispose]: () =>
        watch.then(
          (made) => made[Symbol.asyncDispose](),
          () => {},
        ),
    }));
  }

  #onTold(name: string, node: QuorumNode): void {
    const watched = this.#watched.get(name);
    if (watched === undefined) return;
    watched.told.add(node);
    if (watched.told.size >= this.#majority) this.#wake(name, watched);
    else watched.timer ??= this.#clock.startTimer(MAJORITY_MS, () => this.#wake(name, watched));
  }

  #wake(name: string, watched: Watched): void {
    watched.told.clear();
    watched.timer?.cancel();
    watched.timer = null;
    this.lines.wakeFirst(name);
  }

  #unwatch(name: string, watched: Watched): void {
    watched.timer?.cancel();
    if (this.#watched.get(name) === watched) this.#watched.delete(name);
    watched.watches
      .then((all) => Promise.all(all.map((each) => each[Symbol.asyncDispose]())))
      .catch(() => {});
  }
}
