import {
  chmodSync,
  existsSync,
  type FSWatcher,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  watch,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { isGone, newProcessTag } from './process-tag.ts';

/** How many files of dead processes are removed at a time. */
const REMOVE_MAX = 100;
/** The file that is written to after an eviction. */
const EVICTED = 'evicted';

/**
 * Each store that waits has a file of its own beside the database, and the operating system reports
 * when another process writes to it, so that one release reaches one process and none polls. One more
 * file is shared by them all: a write to it means that a claim was evicted. Notifications are hints:
 * without them waiters ask more often.
 */
export class FileNotifier {
  readonly tag = newProcessTag();
  readonly #folder: string | null;
  readonly #onNotified: () => void;
  readonly #onEviction: () => void;
  #watchers: FSWatcher[] = [];
  #isUsable = true;

  /** @param path the database's file, or `null` when it is in memory and no other process sees it. */
  constructor(path: string | null, onNotified: () => void, onEviction: () => void) {
    this.#folder = path === null ? null : `${path}-wake`;
    this.#onNotified = onNotified;
    this.#onEviction = onEviction;
  }

  /** Whether other processes can reach this store. */
  get isListening(): boolean {
    return this.#folder === null || this.#watchers.length > 0;
  }

  /** While `isListening`, no notification is missed from the return of this call on. */
  listen(): void {
    if (this.isListening || !this.#isUsable) return;
    try {
      this.#watch(this.tag, this.#onChange);
      // Without this one, the next renewal shows that a hold was evicted.
      this.#watch(EVICTED, this.#onEviction);
    } catch {
      // The folder cannot be made, the file belongs to another user, or the system has no more watches.
      this.#isUsable = this.isListening;
    }
  }

  #watch(name: string, onChange: (event: string) => void): void {
    if (this.#folder === null) return;
    const file = join(this.#folder, name);
    makeFile(this.#folder, file);
    const watcher = watch(file, { persistent: false }, onChange);
    this.#watchers.push(watcher.on('error', () => this.#stop()));
  }

  notify(tags: ReadonlySet<string>): void {
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
      // Only if it exists.
      writeFileSync(join(this.#folder, file), '!', { flag: 'r+' });
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
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [];
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
  // A write to it would notify the processes that watch it.
  if (existsSync(file)) return;
  const mode = statSync(folder.slice(0, -'-wake'.length)).mode & 0o666;
  if (!existsSync(folder)) {
    mkdirSync(folder, { recursive: true });
    chmodSync(folder, mode | ((mode & 0o444) >> 2));
  }
  for (const tag of readdirSync(folder).slice(0, REMOVE_MAX)) {
    if (isGone(tag)) rmSync(join(folder, tag), { force: true });
  }
  writeFileSync(file, '.');
  chmodSync(file, mode);
}
