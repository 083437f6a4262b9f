import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

type Direction = 'toServer' | 'toClient';

/** One connection through the proxy. */
interface Link {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes of it were swallowed: it can never be healed, only cut. */
  lost: boolean;
  readonly held: Buffer[];
}

export interface FaultProxy extends AsyncDisposable {
  readonly port: number;
  /** How many connections are open now. */
  readonly connections: number;
  /** How many bytes have come from clients, also those that were then dropped. */
  readonly bytesToServer: number;
  /** Swallows what goes this way, on open and new connections; the other side is told nothing, as on a dead link. */
  drop(direction: Direction | 'both'): void;
  /** Keeps replies back until `pass`; requests go through. */
  holdReplies(): void;
  /** Delays every byte, both ways, by this long. */
  delay(ms: number): void;
  /** Lets everything through again, held replies first. Connections that have lost bytes are cut. */
  pass(): void;
  /** Ends every open connection at once, without a goodbye. */
  cut(): void;
  /** Ends a connection in the middle of its next reply, after so many bytes of it. */
  cutInside(bytes: number): void;
  /** Refuses new connections until `pass`. */
  refuse(): void;
  stop(): Promise<void>;
}

/** A TCP proxy on loopback that fails on command. `port` is the real server's. */
export async function startFaultProxy(port: number): Promise<FaultProxy> {
  const proxy = new TcpFaultProxy(port);
  await proxy.listen();
  return proxy;
}

class TcpFaultProxy implements FaultProxy {
  readonly #target: number;
  readonly #server: Server;
  readonly #links = new Set<Link>();
  readonly #dropping = new Set<Direction>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #holding = false;
  #refusing = false;
  #delayMs = 0;
  #cutAfter: number | null = null;
  bytesToServer = 0;

  constructor(target: number) {
    this.#target = target;
    this.#server = createServer((client) => this.#accept(client));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connections(): number {
    return this.#links.size;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  drop(direction: Direction | 'both'): void {
    for (const each of direction === 'both' ? (['toServer', 'toClient'] as const) : [direction])
      this.#dropping.add(each);
  }

  holdReplies(): void {
    this.#holding = true;
  }

  delay(ms: number): void {
    this.#delayMs = ms;
  }

  cutInside(bytes: number): void {
    this.#cutAfter = bytes;
  }

  refuse(): void {
    this.#refusing = true;
  }

  pass(): void {
    this.#dropping.clear();
    this.#holding = false;
    this.#refusing = false;
    this.#delayMs = 0;
    for (const link of [...this.#links]) {
      if (link.lost) this.#end(link);
      else for (const data of link.held.splice(0)) link.client.write(data);
    }
  }

  cut(): void {
    for (const link of [...this.#links]) this.#end(link);
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #accept(client: Socket): void {
    if (this.#refusing) {
      client.resetAndDestroy();
      return;
    }
    const server = connect(this.#target, '127.0.0.1');
    const link: Link = { client, server, lost: false, held: [] };
    this.#links.add(link);
    client.setNoDelay(true);
    server.setNoDelay(true);
    client.on('data', (data) => {
      this.bytesToServer += data.length;
      this.#carry(link, 'toServer', data);
    });
    server.on('data', (data) => this.#carry(link, 'toClient', data));
    for (const socket of [client, server]) {
      socket.on('error', () => this.#end(link));
      socket.on('close', () => this.#end(link));
    }
  }

  #carry(link: Link, direction: Direction, data: Buffer): void {
    if (this.#dropping.has(direction)) {
      link.lost = true;
      return;
    }
    if (direction === 'toClient' && this.#holding) {
      link.held.push(data);
      return;
    }
    if (direction === 'toClient' && this.#cutAfter !== null) {
      const part = data.subarray(0, this.#cutAfter);
      this.#cutAfter = null;
      // An orderly end: a reset could overtake the part.
      link.client.end(part, () => this.#end(link));
      return;
    }
    const to = direction === 'toServer' ? link.server : link.client;
    if (this.#delayMs === 0) {
      to.write(data);
      return;
    }
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      if (this.#links.has(link)) to.write(data);
    }, this.#delayMs);
    this.#timers.add(timer);
  }

  #end(link: Link): void {
    if (!this.#links.delete(link)) return;
    link.client.resetAndDestroy();
    link.server.resetAndDestroy();
  }
}
