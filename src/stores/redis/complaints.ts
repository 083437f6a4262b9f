import { type EventEmitter, errorMonitor } from 'node:events';

/** The server has turned the client away: trying again does not help before somebody does something. */
const REFUSED = /\b(WRONGPASS|NOAUTH|NOPERM)\b/;

/** Of ioredis, for whatever it was closed for. */
const CLOSED = 'Connection is closed.';

const shared = new WeakMap<object, Complaints>();

/**
 * What a client says of why it is not connected. Overheard: a listener of its errors would keep those from its owner, who may have none. One for all stores that
 * use the client.
 */
export class Complaints {
  readonly #client: EventEmitter;
  readonly #ready: string;
  readonly #waiting = new Set<() => void>();
  #users = 0;
  /** The last since it was connected. */
  last: Error | null = null;

  /** `ready`: the event that tells that it is connected. */
  static of(client: object, ready: string): Complaints {
    const complaints = shared.get(client) ?? new Complaints(client as EventEmitter, ready);
    shared.set(client, complaints);
    complaints.#begin();
    return complaints;
  }

  private constructor(client: EventEmitter, ready: string) {
    this.#client = client;
    this.#ready = ready;
  }

  get isRefused(): boolean {
    return this.last !== null && REFUSED.test(this.last.message);
  }

  /** Calls back when the server turns the client away. The result ends that. */
  onRefused(callback: () => void): () => void {
    this.#waiting.add(callback);
    return () => void this.#waiting.delete(callback);
  }

  /** Each user calls it once. */
  leave(): void {
    this.#users -= 1;
    if (this.#users === 0) this.#each('off');
  }

  #begin(): void {
    this.#users += 1;
    if (this.#users === 1) this.#each('on');
  }

  #each(verb: 'on' | 'off'): void {
    this.#client[verb](errorMonitor, this.hear);
    // Of a Cluster of ioredis: what one node said, where an error tells only that all have failed.
    this.#client[verb]('node error', this.hear);
    this.#client[verb](this.#ready, this.#forget);
  }

  /** What it says to somebody else, such as whoever asked it to connect. */
  readonly hear = (error: unknown): void => {
    const told = withoutSecrets(error);
    // Which says only that something was said before.
    if (told.message === CLOSED && this.last !== null) return;
    this.last = told;
    if (this.isRefused) for (const callback of [...this.#waiting]) callback();
  };

  readonly #forget = (): void => {
    this.last = null;
  };
}

/** ioredis hangs the command on its error: for one that logs in, the password. */
function withoutSecrets(error: unknown): Error {
  const { lastNodeError } = (error ?? {}) as { readonly lastNodeError?: unknown };
  const told = lastNodeError ?? error;
  if (!(told instanceof Error)) return new Error(String(told));
  if (!('command' in told)) return told;
  const clean = new Error(told.message);
  clean.name = told.name;
  return clean;
}
