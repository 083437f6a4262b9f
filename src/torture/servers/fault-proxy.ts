import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

type Direction = 'toServer' | 'toClient';

/** One connection through the proxy. */
interface ProxiedConnection {
  readonly client: Socket;
  readonly server: Socket;
  /** Bytes of it were dropped: it cannot be repaired, only cut. */
  lost: boolean;
  isSilent: boolean;
  readonly held: Buffer[];
  /** Delayed bytes. Later bytes do not overtake them, even if the delay is shorter by then. */
  readonly late: Record<Direction, Late[]>;
}

interface Late {
  readonly data: Buffer;
  readonly dueMs: number;
}

export interface FaultProxy extends AsyncDisposable {
  readonly port: number;
  /** How many connections are open now. */
  readonly connections: number;
  /** How many bytes clients have sent, including those that were dropped. */
  readonly bytesToServer: number;
  /**
   * Drops all bytes in this direction, on open and new connections, without notifying either end.
   */
  drop(direction: Direction | 'both'): void;
  /** Drops all bytes of the connections that are open now, as a router that has forgotten them does. */
  dropOpen(): void;
  /** Holds replies back until `pass`; requests go through. */
  holdReplies(): void;
  /** Delays every byte, both ways, by this long. */
  delay(ms: number): void;
  /**
   * Lets everything through again, held replies first. Connections that have lost bytes are cut.
   */
  pass(): void;
  /** Resets every open connection at once. */
  cut(): void;
  /** Resets every open connection at the client's end. The server sees them open until `pass`. */
  halfOpen(): void;
  /** Ends a connection in the middle of its next reply, after this many bytes. */
  cutInside(bytes: number): void;
  /** How many connections were refused. */
  readonly refused: number;
  /** Refuses new connections until `pass`. */
  refuse(): void;
  stop(): Promise<void>;
}

/**
 * A TCP proxy on loopback that fails on request. `port` is that of the real server; a function
 * where the server has to know the port of the proxy before it has one of its own.
 */
export async function startFaultProxy(
  port: number | (() => number),
  host = '127.0.0.1',
): Promise<FaultProxy> {
  const proxy = new TcpFaultProxy(typeof port === 'number' ? () => port : port, host);
  await proxy.listen();
  return proxy;
}

class TcpFaultProxy implements FaultProxy {
  readonly #target: () => number;
  readonly #host: string;
  readonly #server: Server;
  readonly #connections = new Set<ProxiedConnection>();
  /** Ends at the server of connections that clients have lost. */
  readonly #halves = new Set<Socket>();
  readonly #dropping = new Set<Direction>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #holding = false;
  #refusing = false;
  #delayMs = 0;
  #cutAfter: number | null = null;
  bytesToServer = 0;
  refused = 0;

  constructor(target: () => number, host: string) {
    this.#target = target;
    this.#host = host;
    this.#server = createServer((client) => this.#accept(client));
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get connections(): number {
    return this.#connections.size;
  }

  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
  }

  drop(direction: Direction | 'both'): void {
    for (const each of direction === 'both' ? (['toServer', 'toClient'] as const) : [direction])
      this.#dropping.add(each);
  }

  dropOpen(): void {
    for (const connection of this.#connections) connection.isSilent = true;
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

  halfOpen(): void {
    for (const connection of [...this.#connections]) {
      this.#connections.delete(connection);
      connection.client.resetAndDestroy();
      this.#halves.add(connection.server);
      connection.server.once('close', () => this.#halves.delete(connection.server));
    }
  }

  refuse(): void {
    this.#refusing = true;
  }

  pass(): void {
    this.#dropping.clear();
    this.#holding = false;
    this.#refusing = false;
    this.#delayMs = 0;
    for (const socket of this.#halves) socket.resetAndDestroy();
    for (const connection of [...this.#connections]) {
      if (connection.lost) this.#end(connection);
      else for (const data of connection.held.splice(0)) connection.client.write(data);
    }
  }

  cut(): void {
    for (const connection of [...this.#connections]) this.#end(connection);
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    for (const socket of this.#halves) socket.resetAndDestroy();
    this.cut();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  #accept(client: Socket): void {
    if (this.#refusing) {
      this.refused += 1;
      client.resetAndDestroy();
      return;
    }
    const server = connect(this.#target(), this.#host);
    const late = { toServer: [], toClient: [] };
    const connection: ProxiedConnection = { client, server, lost: false, isSilent: false, held: [], late };
    this.#connections.add(connection);
    client.setNoDelay(true);
    server.setNoDelay(true);
    client.on('data', (data) => {
      this.bytesToServer += data.length;
      this.#carry(connection, 'toServer', data);
    });
    server.on('data', (data) => this.#carry(connection, 'toClient', data));
    for (const socket of [client, server]) {
      socket.on('error', () => this.#end(connection));
      socket.on('close', () => this.#end(connection));
    }
  }

  #carry(connection: ProxiedConnection, direction: Direction, data: Buffer): void {
    if (connection.isSilent || this.#dropping.has(direction)) {
      connection.lost = true;
      return;
    }
    if (direction === 'toClient' && this.#holding) {
      connection.held.push(data);
      return;
    }
    if (direction === 'toClient' && this.#cutAfter !== null) {
      const part = data.subarray(0, this.#cutAfter);
      this.#cutAfter = null;
      // An orderly end: a reset could overtake the part.
      connection.client.end(part, () => this.#end(connection));
      return;
    }
    const to = direction === 'toServer' ? connection.server : connection.client;
    const late = connection.late[direction];
    if (this.#delayMs === 0 && late.length === 0) {
      to.write(data);
      return;
    }
    late.push({ data, dueMs: performance.now() + this.#delayMs });
    if (late.length === 1) this.#deliver(connection, late, to);
  }

  #deliver(connection: ProxiedConnection, late: Late[], to: Socket): void {
    for (let [next] = late; next !== undefined && this.#connections.has(connection); [next] = late) {
      const waitMs = next.dueMs - performance.now();
      if (waitMs > 0) {
        const timer = setTimeout(() => {
          this.#timers.delete(timer);
          this.#deliver(connection, late, to);
        }, waitMs);
        this.#timers.add(timer);
        return;
      }
      to.write(next.data);
      late.shift();
    }
  }

  #end(connection: ProxiedConnection): void {
    if (!this.#connections.delete(connection)) return;
    connection.client.resetAndDestroy();
    connection.server.resetAndDestroy();
  }
}
