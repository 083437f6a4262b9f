import type { Watching } from '../shared/ahead-watch.ts';
import { type Calls, isNoNode } from './calls.ts';
import type { Watcher } from './client.ts';
import type { PatchedClient } from './patched-client.ts';

/** `isGone`: the watched node was removed, not only changed. */
type Fire = (isGone: boolean) => void;

/** One watched path, for all its listeners. */
interface Entry {
  readonly path: string;
  readonly fires: Set<Fire>;
  armed: Promise<void>;
  onEvent: Watcher;
}

type Kind = 'node' | 'children';

/**
 * The watches of one session: on a node, and on the children of a node. A watch of ZooKeeper fires
 * once, and all listeners of a path share it. Every watch ends with the connection. After a
 * reconnect all claims and observers are woken, and watch again.
 */
export class WatchHub {
  readonly #calls: Calls;
  readonly #client: PatchedClient;
  readonly #entries: Record<Kind, Map<string, Entry>> = { node: new Map(), children: new Map() };
  /**
   * What the client calls, one function for each path. The client keeps a function once, and also when
   * the answer to a watch that was given up arrives late: with a function for each attempt, an outage
   * would add listeners without end.
   */
  readonly #watchers: Record<Kind, Map<string, Watcher>> = { node: new Map(), children: new Map() };

  constructor(calls: Calls, client: PatchedClient) {
    this.#calls = calls;
    this.#client = client;
  }

  /** Fires when the node's data has changed, and when the node is gone or was gone already. */
  node(path: string, fire: Fire): Watching {
    return this.#add('node', path, fire, (entry) => this.#armNode(entry));
  }

  /** Fires after every creation and removal of a child. */
  children(path: string, fire: () => void): Watching {
    return this.#add('children', path, fire, (entry) => this.#armChildren(entry));
  }

  /** The connection is over. */
  reset(): void {
    for (const kind of ['node', 'children'] as const) {
      for (const path of [...this.#watchers[kind].keys()]) this.#forget(kind, path);
      this.#entries[kind].clear();
    }
  }

  #watcherOf(kind: Kind, path: string): Watcher {
    let watcher = this.#watchers[kind].get(path);
    if (watcher === undefined) {
      watcher = (event) => this.#entries[kind].get(path)?.onEvent(event);
      this.#watchers[kind].set(path, watcher);
    }
    return watcher;
  }

  #forget(kind: Kind, path: string): void {
    const watcher = this.#watchers[kind].get(path);
    this.#watchers[kind].delete(path);
    if (watcher !== undefined) this.#client.forgetWatch(path, watcher);
  }

  #add(kind: Kind, path: string, fire: Fire, arm: (entry: Entry) => Promise<void>): Watching {
    const entries = this.#entries[kind];
    let entry = entries.get(path);
    if (entry === undefined) {
      entry = { path, fires: new Set(), armed: Promise.resolve(), onEvent: () => {} };
      entries.set(path, entry);
      entry.armed = arm(entry);
      entry.armed.catch(() => {
        if (entries.get(path) === entry) entries.delete(path);
      });
    }
    // A new function for each listener, because the same callback may be given twice.
    const own: Fire = (isGone) => fire(isGone);
    entry.fires.add(own);
    const { fires, armed } = entry;
    return { armed, cancel: () => void fires.delete(own) };
  }

  async #armNode(entry: Entry): Promise<void> {
    const gone = (): void => {
      if (this.#entries.node.get(entry.path) !== entry) return;
      this.#entries.node.delete(entry.path);
      this.#forget('node', entry.path);
      notify(entry, true);
    };
    entry.onEvent = (event) => {
      const isListenedTo = this.#entries.node.get(entry.path) === entry && entry.fires.size > 0;
      if (isListenedTo && isDataChange(event)) {
        // Only the note has changed. A watch of ZooKeeper fires once, so the node is watched again.
        this.#armNode(entry).catch(gone);
        notify(entry, false);
      } else gone();
    };
    const created = await this.#calls.exists(entry.path, this.#watcherOf('node', entry.path));
    if (created === null) gone();
  }

  async #armChildren(entry: Entry): Promise<void> {
    const changed = (): void => {
      if (this.#entries.children.get(entry.path) !== entry) return;
      if (entry.fires.size === 0) {
        this.#entries.children.delete(entry.path);
        this.#forget('children', entry.path);
      } else entry.armed = this.#again(entry);
    };
    entry.onEvent = changed;
    const watcher = this.#watcherOf('children', entry.path);
    try {
      await this.#calls.getChildren(entry.path, watcher);
    } catch (error) {
      if (!isNoNode(error)) throw error;
      // The lock node does not exist yet, so its creation is watched. A node that was created in
      // between is a change too.
      if ((await this.#calls.exists(entry.path, watcher)) !== null) changed();
    }
  }

  /** Watches again before it notifies, so that no change in between is missed. */
  async #again(entry: Entry): Promise<void> {
    try {
      await this.#armChildren(entry);
    } catch {
      // The connection is lost, and all listeners are notified after the reconnect.
    }
    notify(entry, false);
  }
}

/** The client's event type for a node whose data was set. */
const DATA_CHANGED = 3;

function isDataChange(event: unknown): boolean {
  return (event as { readonly type?: unknown } | null)?.type === DATA_CHANGED;
}

function notify(entry: Entry, isGone: boolean): void {
  for (const fire of [...entry.fires]) fire(isGone);
}
