import { isNodeExists, isNoNode } from './calls.ts';
import { type Acl, CREATE } from './client.ts';
import { encodeName } from './node-name.ts';
import type { Session } from './session.ts';

/** How many lock nodes are remembered as created by this store. */
const MADE_MAX = 10_000;

/**
 * The lock nodes, `<root>/<name>`. They are created when needed, and stay unless `removeEmpty` is
 * set: kazoo fails without them.
 */
export class LocksTree {
  readonly root: string;
  readonly acl: Acl | undefined;
  readonly #cleans: boolean;
  readonly #made = new Set<string>();

  constructor(root: string, acl: Acl | undefined, cleans: boolean) {
    this.root = root;
    this.acl = acl;
    this.#cleans = cleans;
  }

  lock(name: string): string {
    const encoded = encodeName(name);
    // `/zookeeper` is ZooKeeper's own node.
    return this.child(this.root === '/' && encoded === 'zookeeper' ? '%7Aookeeper' : encoded);
  }

  child(node: string): string {
    return this.root === '/' ? `/${node}` : `${this.root}/${node}`;
  }

  /** Creates the lock node and its parents. */
  async make(session: Session, lock: string): Promise<void> {
    const isNew = await this.#create(session, lock);
    if (isNew && this.#cleans && this.#made.size < MADE_MAX) this.#made.add(lock);
  }

  /** Removes a lock node that this store has created. ZooKeeper refuses that while it has claims. */
  clean(session: Session, lock: string): void {
    if (!this.#made.has(lock)) return;
    session.calls.remove([lock]).then(
      (isRemoved) => void (isRemoved && this.#made.delete(lock)),
      // The lock has claims, or no member answers. The lock node stays.
      () => {},
    );
  }

  async #create(session: Session, path: string): Promise<boolean> {
    try {
      await session.calls.create([{ path, data: Buffer.alloc(0), acl: this.acl, mode: CREATE.persistent }]);
      return true;
    } catch (error) {
      if (isNodeExists(error)) return false;
      if (!isNoNode(error) || path === '/') throw error;
      // Even `/` may be missing: the client may have a chroot whose node does not exist yet.
      await this.#create(session, path.slice(0, path.lastIndexOf('/')) || '/');
      return await this.#create(session, path);
    }
  }
}
