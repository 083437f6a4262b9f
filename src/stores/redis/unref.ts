import { setImmediate } from 'node:timers';
import type { ClientEvents } from './observed-client.ts';

interface Unrefable {
  unref?(): unknown;
}

/**
 * A client that we have opened must not keep the process alive: neither by its socket, nor by the
 * timer between two attempts to connect. While a call of the user is pending, the core does.
 */
export function unrefIoredis<Client extends ClientEvents>(client: Client): Client {
  const unref = (): void => {
    const { stream, reconnectTimeout } = client as {
      readonly stream?: Unrefable | null;
      readonly reconnectTimeout?: Unrefable | null;
    };
    stream?.unref?.();
    reconnectTimeout?.unref?.();
  };
  // The socket is made after the event.
  client.on('connecting', () => void setImmediate(unref));
  client.on('connect', unref);
  client.on('reconnecting', unref);
  return client;
}

/** The same for node-redis. Applies to every later connection too. */
export function unrefNodeRedis<Client extends object>(client: Client): Client {
  (client as Unrefable).unref?.();
  return client;
}
