import { isNodeExists, isNoNode } from './calls.ts';
import type { Acl } from './client.ts';
import { encodeName } from './node-name.ts';
import type { Session } from './session.ts';

/** How many locks are remembered as made by this store. */
const MADE_MAX = 10_000;

/** The nodes that locks live under: `<root>/<name>`. They are made when first needed, and left alone: other programs fail when they vanish. */
export class LocksTree {
  readonly root: string;
  readonly #acl: Acl | undefined;
  readonly #cleans: boolean;
  readonly #made = new Set<string>();

  constructor(root: string, acl: Acl | undefined, cleans: boolean) {
    this.root = root;
    this.#acl = acl;
    this.#cleans = cleans;
  }

  lock(name: string): string {
    const encoded = encodeName(name);
    // ZooKeeper's own node.
    return this.child(this.root === '/' && encoded === 'zookeeper' ? '%7Aookeeper' : encoded);
  }

  child(node: string): string {
    return this.root === '/' ? `/${node}` : `${this.root}/${node}`;
  }

  /** Makes the lock's node and what it stands under. */
  async make(session: Session, lock: string): Promise<void> {
    const isNew = await this.#create(session, lock).catch(async (error: unknown) => {
      if (!isNoNode(error)) throw error;
      const parts = lock.split('/').slice(1);
      for (const n of parts.keys()) await this.#create(session, `/${parts.slice(0, n + 1).join('/')}`);
      return true;
    });
    if (isNew && this.#cleans && this.#made.size < MADE_MAX) this.#made.add(lock);
  }

  /** Removes the node of a lock that nobody uses, if this store has made it and was asked to clean up. ZooKeeper refuses when there are claims. */
  clean(session: Session, lock: string): void {
    if (!this.#made.has(lock)) return;
    session.calls.remove(lock).then(
      (isRemoved) => void (isRemoved && this.#made.delete(lock)),
      // There are claims, or nobody answers: it stays.
      () => {},
    );
  }

  async #create(session: Session, path: string): Promise<boolean> {
    try {
      await session.calls.create(path, Buffer.alloc(0), this.#acl, false);
      return true;
    } catch (error) {
      if (isNodeExists(error)) return false;
      // A client with a root of its own whose node nobody has made yet.
      if (!isNoNode(error) || path === '/' || path.lastIndexOf('/') !== 0) throw error;
      await this.#create(session, '/');
      return await this.#create(session, path);
    }
  }
}
