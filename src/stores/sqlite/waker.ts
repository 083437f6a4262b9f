import {
  chmodSync,
  closeSync,
  type FSWatcher,
  mkdirSync,
  openSync,
  readdirSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { WatchTarget } from '../../store/store.ts';
import { isGone, newMark } from './process-mark.ts';

/** How many files of dead processes are cleared away at a time. */
const CLEAR_MAX = 100;

/**
 * Wakes waiters, here and in other processes. Each store has a file of its own beside the database and lets the system tell it when somebody writes to it, so
 * that one release reaches one process and nobody polls. Like every wake-up it is a hint: when the file cannot be had, waiters still ask by themselves.
 */
export class Waker {
  readonly mark = newMark();
  readonly #folder: string | null;
  readonly #onWake: () => void;
  readonly #claims = new Map<string, Set<() => void>>();
  readonly #names = new Map<string, Set<() => void>>();
  #watcher: FSWatcher | null = null;
  #works = true;

  /** @param path the database's file, or `null` when it is in memory and nobody else can see it. */
  constructor(path: string | null, onWake: () => void) {
    this.#folder = path === null ? null : `${path}-wake`;
    this.#onWake = onWake;
  }

  /** Whether other processes can reach us. */
  get isListening(): boolean {
    return this.#folder === null || this.#watcher !== null;
  }

  /** @returns what ends it, and says whether it was the last of its name. */
  add(target: WatchTarget, wake: () => void): () => boolean {
    this.#listen();
    const [index, key] = target.id === undefined ? [this.#names, target.name] : [this.#claims, target.id];
    const wakes = index.get(key) ?? new Set();
    index.set(key, wakes);
    // A fresh function: the same callback may watch twice.
    const own = (): void => wake();
    wakes.add(own);
    return () => {
      const removed = wakes.delete(own);
      if (wakes.size > 0 || index.get(key) !== wakes) return false;
      index.delete(key);
      return removed;
    };
  }

  /** Wakes these claims where they are ours, and the processes of all others. */
  readonly tell = (marks: readonly string[], ids: readonly string[]): void => {
    for (const mark of new Set(marks)) {
      if (mark === this.mark) this.#wakeHere(ids);
      else this.#touch(mark);
    }
  };

  wakeClaims(ids: readonly string[]): void {
    for (const id of ids) wakeAll(this.#claims.get(id));
  }

  close(): void {
    this.#claims.clear();
    this.#names.clear();
    this.#works = false;
    this.#stopListening();
  }

  #wakeHere(ids: readonly string[]): void {
    this.wakeClaims(ids);
    this.#wakeNames();
  }

  #wakeNames(): void {
    for (const wakes of this.#names.values()) wakeAll(wakes);
  }

  #touch(mark: string): void {
    if (this.#folder === null) return;
    const file = join(this.#folder, mark);
    try {
      const fd = openSync(file, 'r+');
      try {
        writeSync(fd, '!', 0);
      } finally {
        closeSync(fd);
      }
    } catch {
      // Not listening yet, or gone: either way it asks again by itself, or not at all.
    }
  }

  #listen(): void {
    if (this.#folder === null || this.#watcher !== null || !this.#works) return;
    const file = join(this.#folder, this.mark);
    try {
      this.#makeFile(this.#folder, file);
      this.#watcher = watch(file, { persistent: false });
      this.#watcher.on('change', this.#onEvent);
      this.#watcher.on('error', () => this.#stopListening());
    } catch {
      // No folder, no more watches to be had: then waiters ask more often instead.
      this.#works = false;
    }
  }

  /** As open to others as the database is: whoever may lock may also wake. */
  #makeFile(folder: string, file: string): void {
    const mode = statSync(folder.slice(0, -'-wake'.length)).mode & 0o666;
    if (statSync(folder, { throwIfNoEntry: false }) === undefined) {
      mkdirSync(folder, { recursive: true });
      chmodSync(folder, mode | ((mode & 0o444) >> 2));
    }
    for (const mark of readdirSync(folder).slice(0, CLEAR_MAX)) {
      if (isGone(mark)) rmSync(join(folder, mark), { force: true });
    }
    writeFileSync(file, '.');
    chmodSync(file, mode);
  }

  readonly #onEvent = (event: string): void => {
    // Removed by somebody: from now on nothing would come. The next watch makes it again.
    if (event === 'rename') this.#stopListening();
    this.#wakeNames();
    this.#onWake();
  };

  #stopListening(): void {
    this.#watcher?.close();
    this.#watcher = null;
    if (this.#folder === null) return;
    try {
      rmSync(join(this.#folder, this.mark), { force: true });
    } catch {
      // The folder is not what it was, or may not be written to any more. What is thrown out of a watcher's event would end the process.
    }
  }
}

function wakeAll(wakes: ReadonlySet<() => void> | undefined): void {
  for (const wake of [...(wakes ?? [])]) wake();
}
