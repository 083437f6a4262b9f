import { StoreError } from '../../errors.ts';
import type { Store } from '../../store/store.ts';

/** A message in transit: a request, a reply, or a wake-up. */
export interface Message {
  readonly process: string;
  readonly kind: 'request' | 'reply' | 'wake-up';
  readonly label: string;
  deliver(): void;
  /**
   * Loses the message. The caller of a lost request or reply gets an error: the connection was
   * lost.
   */
  lose(): void;
}

/**
 * The network between the processes and their store. It moves nothing by itself: `post` gets every
 * message, and delivers or loses it in any order, at any time, also after the sender has stopped
 * waiting for the answer.
 */
export class Network {
  readonly #store: Store;
  readonly #post: (message: Message) => void;

  constructor(store: Store, post: (message: Message) => void) {
    this.#store = store;
    this.#post = post;
  }

  /** The connection of a process to the store. */
  connect(process: string): Store {
    const store = this.#store;
    const send = <T>(label: string, run: () => Promise<T>): Promise<T> => this.#exchange(process, label, run);
    // A wake-up may be late, so a pushed grant could not be counted from its arrival.
    const late =
      (name: string, wake: () => void): (() => void) =>
      () =>
        this.#post({ process, kind: 'wake-up', label: `wake ${name}`, deliver: wake, lose: () => {} });
    return {
      traits: store.traits,
      claim: (request, signal, waiter) => {
        const wake = late(request.name, () => waiter?.wake());
        return send(`claim ${request.name}`, () => store.claim(request, signal, { wake }));
      },
      renew: (ref, change) => send(`renew ${ref.name}`, () => store.renew(ref, change)),
      release: (ref) => send(`release ${ref.name}`, () => store.release(ref)),
      evict: (ref) => send(`evict ${ref.name}`, () => store.evict(ref)),
      read: (name) => send(`read ${name}`, () => store.read(name)),
      watch: (target, onChange) =>
        send(`watch ${target.name}`, () => store.watch(target, late(target.name, onChange))),
      list: (prefix) => store.list(prefix),
      close: async () => {},
    };
  }

  #exchange<T>(process: string, label: string, run: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const lose = (): void =>
        reject(new StoreError(`${process} ${label}: connection lost`, { applied: 'unknown' }));
      const answer = (outcome: string, settle: () => void): void =>
        this.#post({ process, kind: 'reply', label: `${label}: ${outcome}`, deliver: settle, lose });
      const deliver = (): void => {
        run().then(
          (value) => answer(textOf(value), () => resolve(value)),
          (error: unknown) => answer(String(error), () => reject(error)),
        );
      };
      this.#post({ process, kind: 'request', label, deliver, lose });
    });
  }
}

/** A reply, as a story shows it. */
function textOf(reply: unknown): string {
  if (typeof reply !== 'object' || reply === null) return String(reply);
  if ('granted' in reply) return reply.granted === true && 'fence' in reply ? `fence ${reply.fence}` : 'held';
  if ('held' in reply) return reply.held === true ? 'renewed' : 'gone';
  return 'done';
}
