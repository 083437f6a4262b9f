import type { Watching } from '../shared/ahead-watch.ts';
import type { Calls } from './calls.ts';
import type { Watcher } from './client.ts';
import type { PatchedClient } from './patched-client.ts';

/** The client's event type for a node whose data was set. */
const DATA_CHANGED = 3;

/**
 * A `node` fires when its data has changed, and when it is gone or was gone already. `children` fire
 * after every creation and removal of a child.
 */
type Kind = 'node' | 'children';

/** `isGone`: the node was removed, or is not watched any more. Otherwise it has changed. */
type Fire = (isGone: boolean) => void;

/** One watched path, for all its listeners. */
interface Watched {
  readonly key: string;
  readonly kind: Kind;
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
 * The watches of one session. A watch of ZooKeeper fires once, and all listeners of a path share it.
 * Every watch ends with the connection. After a reconnect all claims and observers are woken, and
 * watch again.
 */
export class WatchHub {
  readonly #calls: Calls;
  readonly #client: PatchedClient;
  readonly #watched = new Map<string, Watched>();

  constructor(calls: Calls, client: PatchedClient) {
    this.#calls = calls;
    this.#client = client;
  }

  /** Each call needs a function of its own. */
  add(kind: Kind, path: string, fire: Fire): Watching {
    const key = `${kind} ${path}`;
    const watched = this.#watched.get(key) ?? this.#begin(key, kind, path);
    const armed = watched.armed ?? this.#arm(watched);
    watched.fires.add(fire);
    return { armed, cancel: () => this.#cancel(watched, fire) };
  }

  /** The connection is over. */
  reset(): void {
    for (const { path, watcher } of this.#watched.values()) this.#client.forgetWatch(path, watcher);
    this.#watched.clear();
  }

  #cancel(watched: Watched, fire: Fire): void {
    watched.fires.delete(fire);
    this.#endIfUnused(watched);
  }

  #begin(key: string, kind: Kind, path: string): Watched {
    const watcher: Watcher = ({ type }) => {
      if (kind === 'node' && type !== DATA_CHANGED) this.#end(watched);
      else this.#onChange(watched);
    };
    const watched: Watched = { key, kind, path, fires: new Set(), watcher, armed: null };
    this.#watched.set(key, watched);
    return watched;
  }

  #arm(watched: Watched): Promise<void> {
    const armed = this.#ask(watched);
    watched.armed = armed;
    armed.catch(() => {
      if (watched.armed !== armed) return;
      watched.armed = null;
      this.#endIfUnused(watched);
    });
    return armed;
  }

  async #ask(watched: Watched): Promise<void> {
    const { kind, path, watcher } = watched;
    if (kind === 'node') {
      // `exists` would leave a watch for a node that is gone, which stays in the server's memory for
      // as long as the connection. Nor does the server report the end of a node that this user may
      // not read. That fails here, and the claim polls.
      if ((await this.#calls.getData(path, watcher)) === null) this.#end(watched);
      return;
    }
    if ((await this.#calls.getChildren(path, watcher)) !== null) return;
    // The lock node did not exist, so its creation is watched. A node that was created in between is
    // a change too.
    if ((await this.#calls.exists(path, watcher)) !== null) this.#onChange(watched);
  }

  #onChange(watched: Watched): void {
    if (this.#watched.get(watched.key) !== watched) return;
    if (watched.fires.size === 0) {
      this.#end(watched);
      return;
    }
    // Watches again before it notifies, so that no change in between is missed. If the server
    // refuses, the watch ends and its listeners are notified. If the connection is lost, they are
    // notified after the reconnect.
    this.#arm(watched).then(
      () => notify(watched, false),
      () => this.#end(watched),
    );
  }

  /** Where the server could not be asked, no event will end a record that has lost its listeners. */
  #endIfUnused(watched: Watched): void {
    if (watched.fires.size === 0 && watched.armed === null) this.#end(watched);
  }

  /** The node is gone, no listener is left, or the server cannot watch. */
  #end(watched: Watched): void {
    const { key, path, watcher } = watched;
    if (this.#watched.get(key) !== watched) return;
    this.#watched.delete(key);
    this.#client.forgetWatch(path, watcher);
    notify(watched, true);
  }
}

function notify({ fires }: Watched, isGone: boolean): void {
  for (const fire of [...fires]) fire(isGone);
}
