import type { Watching } from '../waiters.ts';
import { type Calls, isNoNode } from './calls.ts';
import type { RawClient, Watcher } from './client.ts';
import type { Gate } from './gate.ts';
import { forgetWatch } from './internals.ts';

/** One path that is watched, whoever listens. */
interface Entry {
  readonly path: string;
  readonly fires: Set<() => void>;
  armed: Promise<void>;
  /** What the client calls. */
  watcher: Watcher | null;
}

type Kind = 'node' | 'children';

/**
 * All that one session watches: the ends of nodes, and changes among the children of a node. A watch of ZooKeeper fires once; it is shared by all who listen to that path. After a lost connection nothing is
 * watched any more: everybody is told of the reconnect, looks, and listens again.
 */
export class WatchHub {
  readonly #calls: Calls;
  readonly #gate: Gate;
  readonly #client: RawClient;
  readonly #entries: Record<Kind, Map<string, Entry>> = { node: new Map(), children: new Map() };
  /** How many events have come, for those who count. */
  events = 0;

  constructor(calls: Calls, gate: Gate, client: RawClient) {
    this.#calls = calls;
    this.#gate = gate;
    this.#client = client;
  }

  /** Fires when the node is gone, also when it is gone already. */
  node(path: string, fire: () => void): Watching {
    return this.#add('node', path, fire, (entry) => this.#armNode(entry));
  }

  /** Fires for every child that comes or goes. */
  children(path: string, fire: () => void): Watching {
    return this.#add('children', path, fire, (entry) => this.#armChildren(entry));
  }

  /** The connection is gone. */
  reset(): void {
    for (const kind of ['node', 'children'] as const) {
      for (const entry of this.#entries[kind].values()) this.#forget(entry);
      this.#entries[kind].clear();
    }
  }

  #forget({ path, watcher }: Entry): void {
    if (watcher !== null) forgetWatch(this.#client, path, watcher);
  }

  #add(kind: Kind, path: string, fire: () => void, arm: (entry: Entry) => Promise<void>): Watching {
    const entries = this.#entries[kind];
    let entry = entries.get(path);
    if (entry === undefined) {
      entry = { path, fires: new Set(), armed: Promise.resolve(), watcher: null };
      entries.set(path, entry);
      entry.armed = arm(entry);
      entry.armed.catch(() => {
        if (entries.get(path) === entry) entries.delete(path);
      });
    }
    // A fresh function: the same callback may listen twice.
    const own = (): void => fire();
    entry.fires.add(own);
    const { fires, armed } = entry;
    return { armed, cancel: () => void fires.delete(own) };
  }

  async #armNode(entry: Entry): Promise<void> {
    const gone = (): void => {
      if (this.#entries.node.get(entry.path) !== entry) return;
      this.#entries.node.delete(entry.path);
      tell(entry);
    };
    const told = (event: unknown): void => {
      this.events += 1;
      // Only its note is another. The watch is spent all the same, and nobody who listens would hear of the end.
      const isChanged = isDataChange(event) && this.#entries.node.get(entry.path) === entry;
      if (isChanged && entry.fires.size > 0) this.#armNode(entry).catch(gone);
      else gone();
    };
    entry.watcher = told;
    const created = await this.#gate.run(() => this.#calls.exists(entry.path, told), true);
    if (created !== null) return;
    this.#forget(entry);
    gone();
  }

  async #armChildren(entry: Entry): Promise<void> {
    const changed = (): void => {
      this.events += 1;
      if (this.#entries.children.get(entry.path) !== entry) return;
      if (entry.fires.size === 0) this.#entries.children.delete(entry.path);
      else entry.armed = this.#again(entry);
    };
    entry.watcher = changed;
    try {
      await this.#calls.getChildren(entry.path, changed);
    } catch (error) {
      if (!isNoNode(error)) throw error;
      // Nobody has used this lock yet: wait for its node. When it has come meanwhile, there is something to see.
      if ((await this.#calls.exists(entry.path, changed)) !== null) changed();
    }
  }

  /** Listens again first, and tells then: what changes in between is seen. */
  async #again(entry: Entry): Promise<void> {
    try {
      await this.#armChildren(entry);
    } catch {
      // The link is broken, and everybody will be told once it is whole again.
    }
    tell(entry);
  }
}

/** The client's number for a node whose data was set. */
const DATA_CHANGED = 3;

function isDataChange(event: unknown): boolean {
  return (event as { readonly type?: unknown } | null)?.type === DATA_CHANGED;
}

function tell(entry: Entry): void {
  for (const fire of [...entry.fires]) fire();
}
