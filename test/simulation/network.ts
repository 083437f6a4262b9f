import { StoreError } from '../../src/errors.ts';
import type { Store } from '../../src/store/store.ts';

/** A message on its way: a request, a reply, or a wake-up. */
export interface Message {
  readonly label: string;
  deliver(): void;
  /** Loses it. The sender of a lost request or reply learns only that it does not know. */
  lose(): void;
}

/**
 * What lies between the processes and their store. Nothing moves by itself: whoever runs the simulation delivers or loses each message, in any order, as late as it likes, also
 * after the sender has given up.
 */
export class Network {
  readonly messages: Message[] = [];
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  /** A process's connection to the store. */
  connect(process: string): Store {
    const store = this.#store;
    const send = <T>(label: string, run: () => Promise<T>): Promise<T> =>
      this.#exchange(`${process} ${label}`, run);
    return {
      traits: store.traits,
      claim: (request) => send(`claim ${request.name}`, () => store.claim(request)),
      renew: (ref, change) => send(`renew ${ref.name}`, () => store.renew(ref, change)),
      release: (ref) => send(`release ${ref.name}`, () => store.release(ref)),
      evict: (ref) => send(`evict ${ref.name}`, () => store.evict(ref)),
      read: (name) => send(`read ${name}`, () => store.read(name)),
      watch: (target, wake) => {
        const late = (): void =>
          this.#post({ label: `${process} wake ${target.name}`, deliver: wake, lose: () => {} });
        return send(`watch ${target.name}`, () => store.watch(target, late));
      },
      list: (prefix) => store.list(prefix),
      close: async () => {},
    };
  }

  take(index: number): Message {
    const [message] = this.messages.splice(index, 1);
    if (message === undefined) throw new Error('no such message');
    return message;
  }

  #post(message: Message): void {
    this.messages.push(message);
  }

  #exchange<T>(label: string, run: () => Promise<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const lost = (): void => reject(new StoreError(`${label}: connection lost`, { applied: 'unknown' }));
      const answer = (settle: () => void): void =>
        this.#post({ label: `${label} reply`, deliver: settle, lose: lost });
      this.#post({
        label,
        lose: lost,
        deliver: () => {
          run().then(
            (value) => answer(() => resolve(value)),
            (error: unknown) => answer(() => reject(error)),
          );
        },
      });
    });
  }
}
