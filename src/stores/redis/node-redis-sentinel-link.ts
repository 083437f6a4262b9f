import { Complaints } from './complaints.ts';
import type { Link, Listening } from './link.ts';

/** What is used of a node-redis Sentinel client. */
export interface NodeRedisSentinel {
  readonly isOpen: boolean;
  readonly isReady: boolean;
  sendCommand(isReadonly: boolean | undefined, args: string[]): Promise<unknown>;
  /** Tells it from a client of one server. */
  acquire(): Promise<unknown>;
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  destroy(): unknown;
  on(event: string, listener: (...args: string[]) => void): unknown;
  once(event: string, listener: (...args: string[]) => void): unknown;
  off(event: string, listener: (...args: string[]) => void): unknown;
}

/** A client that follows the master which the Sentinels name. It sends again by itself what has no answer when the master changes. */
export class NodeRedisSentinelLink implements Link {
  readonly keyPrefix = '';
  readonly #client: NodeRedisSentinel;
  readonly #complaints: Complaints;
  #breaks = 0;
  readonly #onBreak = (): void => {
    this.#breaks += 1;
  };

  constructor(client: NodeRedisSentinel) {
    this.#client = client;
    this.#complaints = Complaints.of(client, 'ready');
    for (const event of BREAKS) client.on(event, this.#onBreak);
  }

  get breaks(): number {
    return this.#breaks;
  }

  get lastError(): Error | null {
    return this.#complaints.last;
  }

  get isRefused(): boolean {
    return this.#complaints.isRefused;
  }

  get isReady(): boolean {
    return this.#client.isReady;
  }

  get whyClosed(): string | null {
    return this.#client.isOpen
      ? null
      : 'the client is not open: it has been closed, or its connect() was not called';
  }

  onceReady(callback: () => void): void {
    const done = (): void => {
      for (const event of ['ready', 'end']) this.#client.off(event, done);
      stopHearing();
      callback();
    };
    const stopHearing = this.#complaints.onRefused(done);
    for (const event of ['ready', 'end']) this.#client.once(event, done);
  }

  send(name: string, args: string[]): Promise<unknown> {
    return this.#client.sendCommand(false, [name, ...args]);
  }

  /** The client has a connection of its own for this, and subscribes again by itself at the next master; what was said meanwhile is lost. */
  listen(channel: string, listening: Listening): { close(): Promise<void> } {
    const onChange = (): void => {
      listening.onDown();
      listening.onUp();
    };
    this.#client.on('topology-change', onChange);
    this.#client
      .subscribe(channel, (message) => listening.onMessage(message))
      .then(
        () => listening.onUp(),
        // Refused, by an ACL for example: waiters poll.
        () => {},
      );
    return {
      close: async () => {
        this.#client.off('topology-change', onChange);
        if (this.#client.isOpen) await this.#client.unsubscribe(channel).catch(() => {});
      },
    };
  }

  leave(): void {
    this.#complaints.leave();
    for (const event of BREAKS) this.#client.off(event, this.#onBreak);
  }

  close(): Promise<void> {
    return closeQuietly(this.#client);
  }
}

const BREAKS = ['topology-change', 'client-error', 'reconnecting'] as const;

async function closeQuietly(client: NodeRedisSentinel): Promise<void> {
  if (client.isOpen) await client.destroy();
}
