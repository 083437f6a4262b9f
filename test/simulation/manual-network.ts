import type { Store } from '../../src/index.ts';
import { type Message, Network } from '../../src/testing/simulation/network.ts';

/** A network whose messages wait until the test delivers or loses them. */
export class ManualNetwork {
  readonly messages: Message[] = [];
  readonly #network: Network;

  constructor(store: Store) {
    this.#network = new Network(store, (message) => void this.messages.push(message));
  }

  connect(process: string): Store {
    return this.#network.connect(process);
  }

  take(index: number): Message {
    const [message] = this.messages.splice(index, 1);
    if (message === undefined) throw new Error('no such message');
    return message;
  }
}
