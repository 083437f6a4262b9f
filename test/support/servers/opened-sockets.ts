import { AsyncLocalStorage } from 'node:async_hooks';
import { Socket } from 'node:net';

const opened = new AsyncLocalStorage<Socket[]>();

/** Runs the function, and collects the sockets that it and its timers connect, in this process. */
export async function withOpenedSockets<T>(fn: (sockets: readonly Socket[]) => Promise<T>): Promise<T> {
  watchSockets();
  const sockets: Socket[] = [];
  return await opened.run(sockets, () => fn(sockets));
}

let isWatched = false;

function watchSockets(): void {
  if (isWatched) return;
  isWatched = true;
  const { connect } = Socket.prototype;
  Socket.prototype.connect = function (this: Socket, ...args: unknown[]) {
    opened.getStore()?.push(this);
    return Reflect.apply(connect, this, args);
  } as typeof connect;
}
