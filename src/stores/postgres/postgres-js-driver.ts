import { connect, type Socket } from 'node:net';
import { firstInstalled } from '../shared/client-library.ts';
import { keepAliveBy } from '../shared/limited-connection.ts';
import { POSTGRES_JS } from './client-library.ts';
import type { DriverConnection, DriverEvents, Row, Statement } from './connection.ts';

/** The part of postgres.js that is read: its settings. */
export interface PostgresJs {
  readonly options: object;
  unsafe(text: string): unknown;
  reserve(): Promise<unknown>;
}

interface Settings {
  readonly host: readonly string[];
  readonly port: readonly number[];
  /** `false`: none. */
  readonly path?: string | false | undefined;
  readonly socket?: ((settings: object) => Socket | Promise<Socket>) | undefined;
}

interface Result extends Array<Row> {
  readonly state?: { readonly pid: number | null } | undefined;
}

interface OwnSql {
  unsafe(text: string, values?: readonly unknown[], options?: object): { values(): Promise<Result> };
  end(options: { timeout: number }): Promise<void>;
}

export type PostgresJsFactory = (settings: object) => OwnSql;

/** What the connections of one pool know of its hosts. */
export interface Hosts {
  /** The position of the one that the next connection tries first. */
  first: number;
}

/**
 * How long one of several hosts may take to accept, so that one that is down is passed over. One that
 * accepts and is silent then is passed over by the next connection.
 */
const HOST_MS = 2_000;
/** Overrides the user's settings for types and names: all columns are text. */
const PLAIN = { column: {}, value: {}, row: {} };

export class PostgresJsDriver implements DriverConnection {
  processId: number | null = null;
  readonly #events: DriverEvents;
  readonly #settings: Settings;
  #sql: OwnSql | null = null;
  #socket: Socket | null = null;
  readonly #hosts: Hosts;
  readonly #first: number;
  /** How many hosts were tried, from the first on. */
  #tried = 0;
  #isEnded = false;

  constructor(settings: object, hosts: Hosts, events: DriverEvents) {
    this.#settings = settings as Settings;
    this.#hosts = hosts;
    this.#first = hosts.first;
    this.#events = events;
  }

  async connect(): Promise<void> {
    const { library } = await firstInstalled('A pool of postgres.js', [POSTGRES_JS]);
    // postgres.js reconnects with the next statement, so none is sent after `onclose`.
    this.#sql = library({
      ...this.#settings,
      ...{ max: 1, idle_timeout: null, max_lifetime: null, fetch_types: false, prepare: true, debug: false },
      ...{ parsers: {}, serializers: {}, transform: PLAIN, onnotice: () => {}, onparameter: undefined },
      socket: (settings: { host: readonly string[] }) => this.#connectSocket(settings),
      onclose: () => {
        this.#isEnded = true;
        this.#events.onClose();
      },
      onnotify: (channel: string, payload: string) => this.#events.onNotification(channel, payload),
    });
  }

  async run({ text, values = [], name }: Statement): Promise<readonly Row[]> {
    if (this.#sql === null || this.#isEnded) throw new Error('the connection is closed');
    const result = await this.#sql.unsafe(text, values, { prepare: name !== undefined }).values();
    this.processId = result.state?.pid ?? this.processId;
    return result;
  }

  setKeepAlive(isKept: boolean): void {
    keepAliveBy(this.#socket ?? undefined, isKept);
  }

  async close(): Promise<void> {
    await this.#sql?.end({ timeout: 1 });
  }

  destroy(): void {
    // A host that answers but cannot be used, such as a standby, must not be the only one that is tried.
    if (!this.#isEnded) this.#hosts.first = this.processId === null ? this.#first + this.#tried : 0;
    this.#isEnded = true;
    this.#socket?.destroy();
    this.#sql?.end({ timeout: 0 }).catch(() => {});
  }

  /**
   * The socket is created here so that it can be destroyed. The library ends it only after an answer,
   * which never comes over a dead connection. It asks for another socket when a host is not what
   * `target_session_attrs` asks for, or closes the connection. Each host is tried once.
   */
  async #connectSocket(settings: { host: readonly string[] }): Promise<Socket> {
    const count = Math.max(this.#settings.port.length, 1);
    let failure: unknown = new Error('no host can be used');
    while (this.#tried < count && !this.#isEnded) {
      try {
        return await this.#connectTo((this.#first + this.#tried++) % count, count > 1 ? HOST_MS : 0);
      } catch (error) {
        failure = error;
      }
    }
    // While it knows of other hosts, the library does not report a failure.
    settings.host = [];
    throw failure;
  }

  /** `limitMs`: 0 for none. */
  async #connectTo(at: number, limitMs: number): Promise<Socket> {
    const { host, port, path, socket: make } = this.#settings;
    const target =
      typeof path === 'string' && path !== ''
        ? { path }
        : { host: host[at] ?? 'localhost', port: port[at] ?? 5432 };
    const socket = make === undefined || make === null ? connect(target) : await make(this.#settings);
    this.#socket = socket;
    Object.assign(socket, { host: host[at] });
    if (this.#isEnded) socket.destroy();
    if (!socket.connecting) return socket;
    return await new Promise((resolve, reject) => {
      socket.setTimeout(limitMs, () => socket.destroy(new Error('the host does not answer')));
      socket.once('error', reject);
      socket.once('close', () => reject(new Error('the connection was closed')));
      socket.once('connect', () => {
        for (const event of ['error', 'close', 'timeout']) socket.removeAllListeners(event);
        socket.setTimeout(0);
        resolve(socket);
      });
    });
  }
}
