import type { RawClient, Watcher } from '../../src/stores/zookeeper/client.ts';

/** The requests that were sent, and the watch events that came back. */
export interface Count {
  creates: number;
  removes: number;
  transactions: number;
  reads: number;
  events: number;
}

type AnyFunction = (...args: unknown[]) => unknown;

const KINDS: Readonly<Record<string, keyof Count>> = {
  create: 'creates',
  remove: 'removes',
  setData: 'transactions',
  transaction: 'transactions',
  exists: 'reads',
  getData: 'reads',
  getChildren: 'reads',
};

/** A client that counts the requests of the store. */
export function counted(client: RawClient): { client: RawClient; count: Count } {
  const count: Count = { creates: 0, removes: 0, transactions: 0, reads: 0, events: 0 };
  const countEvents = (args: unknown[]): unknown[] => {
    const [path, watcher, callback] = args;
    if (typeof callback !== 'function' || typeof watcher !== 'function') return args;
    const told: Watcher = (event) => {
      count.events += 1;
      (watcher as Watcher)(event);
    };
    return [path, told, callback];
  };
  const proxy = new Proxy(client, {
    get(target, key) {
      const value: unknown = Reflect.get(target, key);
      if (typeof value !== 'function') return value;
      const kind = KINDS[String(key)];
      return (...args: unknown[]): unknown => {
        if (kind !== undefined) count[kind] += 1;
        return (value as AnyFunction).apply(target, kind === 'reads' ? countEvents(args) : args);
      };
    },
    set: (target, key, value) => Reflect.set(target, key, value),
  });
  return { client: proxy, count };
}
