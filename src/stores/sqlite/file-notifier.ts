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
import { isGone, newProcessTag } from './process-tag.ts';

/** How many files of dead processes are removed at a time. */
const REMOVE_MAX = 100;
/** The file that is written to after an eviction. */
const EVICTED = 'evicted';

/**
 * Notifies other processes, and is notified by them. Each store that waits has a file of its own beside
 * the database, and the operating system reports when another process writes to it, so that one release
 * reaches one process and none polls. One more file is shared by them all: a write to it means that a
 * claim was evicted. Notifications are hints: without them waiters ask more often.
 */
export class FileNotifier {
  readonly tag = newProcessTag();
  readonly #folder: string | null;
  readonly #onNotified: () => void;
  readonly #onEviction: () => void;
  #watcher: FSWatcher | null = null;
  #evictionWatcher: FSWatcher | null = null;
  #isUsable = true;

  /** @param path the database's file, or `null` when it is in memory and no other process sees it. */
  constructor(path: string | null, onNotified: () => void, onEviction: () => void) {
    this.#folder = path === null ? null : `${path}-wake`;
    this.#onNotified = onNotified;
    this.#onEviction = onEviction;
  }

  /** Whether other processes can reach this store. */
  get isListening(): boolean {
    return this.#folder === null || this.#watcher !== null;
  }

  /** From its return on, no notification is missed. */
  listen(): void {
    if (this.#folder === null || this.#watcher !== null || !this.#isUsable) return;
    const file = join(this.#folder, this.tag);
    try {
      makeFile(this.#folder, file);
      this.#watcher = watch(file, { persistent: false });
      this.#watcher.on('change', this.#onChange);
      this.#watcher.on('error', () => this.#stop());
      this.#watchEvictions(this.#folder);
    } catch {
      // The folder cannot be made, or the system has no more watches.
      this.#isUsable = false;
    }
  }

  /** Without this watch, the next renewal shows that a hold was evicted. */
  #watchEvictions(folder: string): void {
    const file = join(folder, EVICTED);
    try {
      if (statSync(file, { throwIfNoEntry: false }) === undefined) makeFile(folder, file);
      this.#evictionWatcher = watch(file, { persistent: false });
      this.#evictionWatcher.on('change', this.#onEviction);
      this.#evictionWatcher.on('error', () => this.#evictionWatcher?.close());
    } catch {
      // The file belongs to another user, or the system has no more watches.
    }
  }

  notify(tags: Iterable<string>): void {
    for (const tag of tags) if (tag !== this.tag) this.#touch(tag);
  }

  /** Tells every process that listens. Not which claim it was: writes of two processes may become one. */
  notifyOfEviction(): void {
    this.#touch(EVICTED);
  }

  close(): void {
    this.#isUsable = false;
    this.#stop();
  }

  #touch(file: string): void {
    if (this.#folder === null) return;
    try {
      const fd = openSync(join(this.#folder, file), 'r+');
      try {
        writeSync(fd, '!', 0);
      } finally {
        closeSync(fd);
      }
    } catch {
      // That process is gone, or does not listen and asks by itself.
    }
  }

  readonly #onChange = (event: string): void => {
    // The file was removed, so nothing more would arrive, and something may have been missed.
    if (event === 'rename') {
      this.#stop();
      this.listen();
    }
    this.#onNotified();
  };

  #stop(): void {
    this.#watcher?.close();
    this.#watcher = null;
    this.#evictionWatcher?.close();
    this.#evictionWatcher = null;
    if (this.#folder === null) return;
    try {
      rmSync(join(this.#folder, this.tag), { force: true });
    } catch {
      // The folder was replaced or closed to this user. An exception thrown out of a watcher's event
      // would end the process.
    }
  }
}

/** The file gets the permissions of the database: a user who may lock may also notify. */
function makeFile(folder: string, file: string): void {
  const mode = statSync(folder.slice(0, -'-wake'.length)).mode & 0o666;
  if (statSync(folder, { throwIfNoEntry: false }) === undefined) {
    mkdirSync(folder, { recursive: true });
    chmodSync(folder, mode | ((mode & 0o444) >> 2));
  }
  for (const tag of readdirSync(folder).slice(0, REMOVE_MAX)) {
    if (isGone(tag)) rmSync(join(folder, tag), { force: true });
  }
  writeFileSync(file, '.');
  chmodSync(file, mode);
}
