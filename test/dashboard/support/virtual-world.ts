import { createDashboard, type Dashboard } from '../../../src/dashboard/index.ts';
import { createLocks, type Locks, memoryStore, type Store } from '../../../src/index.ts';
import { type VirtualClock, virtualClock } from '../../../src/testing/index.ts';
import { EventReader } from './event-source.ts';

/** A store, the Locks of the serving process and a dashboard, all in virtual time. */
export interface VirtualWorld {
  readonly clock: VirtualClock;
  readonly store: Store;
  readonly locks: Locks;
  readonly dashboard: Dashboard;
  /** The Locks of another process. */
  of(owner: string): Locks;
  /** The JSON of an answer with status 200. */
  get<T>(path: string): Promise<T>;
}

export function virtualWorld(wrap: (store: Store) => Store = (store) => store): VirtualWorld {
  const clock = virtualClock();
  const store = wrap(memoryStore({ clock }));
  const of = (owner: string): Locks => createLocks(store, { clock, owner });
  const locks = of('me');
  const dashboard = createDashboard(locks, { access: () => 'operate' });
  const get = async <T>(path: string): Promise<T> => {
    const answer = await dashboard.fetch(new Request(`http://localhost${path}`));
    if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${await answer.text()}`);
    return (await answer.json()) as T;
  };
  return { clock, store, locks, dashboard, of, get };
}

/** A viewer who reads the event stream until it is closed. */
export async function watch({ dashboard }: VirtualWorld): Promise<EventReader> {
  const events = new EventReader((await dashboard.fetch(new Request('http://localhost/api/events'))).body);
  void (async () => {
    while ((await events.next()) !== null);
  })();
  return events;
}
