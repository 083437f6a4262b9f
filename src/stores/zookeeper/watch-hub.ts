import type { Watching } from '../shared/ahead-watch.ts';
import { type Calls, isNoNode } from './calls.ts';
import type { Watcher } from './client.ts';
import type { PatchedClient } from './patched-client.ts';

/** `isGone`: the watched node was removed, not only changed. */
type Fire = (isGone: boolean) => void;

/** One watched path, for all its listeners. */
interface Watched {
  readonly kind: 'node' | 'children';
  readonly path: string;
  readonly fires: Set<Fire>;
  /**
   * What the client calls. It keeps a function once, also when the answer to a watch that has failed
   * arrives late: with a function for each attempt, an outage would add listeners without end.
   */
  readonly watcher: Watcher;
  /** `null`: the server could not be asked. */
  armed: Promise<void> | null;
}

/**
 * The watches of one session: on a node, and on the children of a node. A watch of ZooKeeper fires
 * once, and all listeners of a path share it. Every watch ends with the connection. After a
 * reconnect all claims and observers are woken, and watch again.
 */
export class WatchHub {
  readonly #calls: Calls;
  readonly #client: PatchedClient;
  readonly #watched = new Map<string, Watched>();

  constructor(calls: Calls, client: PatchedClient) {
    this.#calls = calls;
    this.#client = client;
  }

  /** Fires when the node's data has changed, and when the node is gone or was gone already. */
  node(path: string, fire: Fire): Watching {
    return this.#add('node', path, fire);
  }

  /** Fires after every creation and removal of a child. */
  children(path: string, fire: () => void): Watching {
    return this.#add('children', path, fire);
  }

  /** The connection is over. */
  reset(): void {
    for (const { path, watcher } of this.#watched.values()) this.#client.forgetWatch(path, watcher);
    this.#watched.clear();
  }

  #add(kind: Watched['kind'], path: string, fire: Fire): Watching {
    const watched = this.#watched.get(keyOf({ kind, path })) ?? this.#begin(kind, path);
    const armed = watched.armed ?? this.#arm(watched);
    // A new function for each listener, because the same callback may be given twice.
    const own: Fire = (isGone) => fire(isGone);
    watched.fires.add(own);
    return { armed, cancel: () => void watched.fires.delete(own) };
  }

  #begin(kind: Watched['kind'], path: string): Watched {
    const watcher: Watcher = (event) => this.#onEvent(watched, event);
    const watched: Watched = { kind, path, fires: new Set(), watcher, armed: null };
    this.#watched.set(keyOf(watched), watched);
    return watched;
  }

  #arm(watched: Watched): Promise<void> {
    const armed = watched.kind === 'node' ? this.#armNode(watched) : this.#armChildren(watched);
    watched.armed = armed;
    armed.catch(() => {
      if (watched.armed === armed) watched.armed = null;
    });
    return armed;
  }

  async #armNode(watched: Watched): Promise<void> {
    if ((await this.#calls.exists(watched.path, watched.watcher)) === null) this.#end(watched);
  }

  async #armChildren(watched: Watched): Promise<void> {
    const { path, watcher } = watched;
    try {
      await this.#calls.getChildren(path, watcher);
    } catch (error) {
      if (!isNoNode(error)) throw error;
      // The lock node does not exist yet, so its creation is watched. A node that was created in
      // between is a change too.
      if ((await this.#calls.exists(path, watcher)) !== null) this.#onEvent(watched, null);
    }
  }

  #onEvent(watched: Watched, event: unknown): void {
    if (this.#watched.get(keyOf(watched)) !== watched) return;
    const isNode = watched.kind === 'node';
    if (watched.fires.size === 0 || (isNode && !isDataChange(event))) {
      this.#end(watched);
      return;
    }
    const changed = (): void => notify(watched, false);
    // Watches again before it notifies, so that no change in between is missed. If that fails, the
    // connection is lost, and all listeners are notified after the reconnect.
    this.#arm(watched).then(changed, isNode ? () => this.#end(watched) : changed);
  }

  /** The node is gone, or no listener is left. */
  #end(watched: Watched): void {
    const key = keyOf(watched);
    if (this.#watched.get(key) !== watched) return;
    this.#watched.delete(key);
    this.#client.forgetWatch(watched.path, watched.watcher);
    notify(watched, true);
  }
}

const keyOf = ({ kind, path }: Pick<Watched, 'kind' | 'path'>): string => `${kind} ${path}`;

/** The client's event type for a node whose data was set. */
const DATA_CHANGED = 3;

function isDataChange(event: unknown): boolean {
  return (event as { readonly type?: unknown } | null)?.type === DATA_CHANGED;
}

function notify({ fires }: Watched, isGone: boolean): void {
  for (const fire of [...fires]) fire(isGone);
}
