import { keepAliveBy, type Stream } from '../shared/limited-connection.ts';
import type { DriverConnection, DriverEvents, Row, Statement } from './connection.ts';

/** The part of a `pg` pool that is read: its settings. */
export interface PgPool {
  readonly options: object;
  readonly totalCount: number;
  connect(): Promise<unknown>;
}

/** The part of a `pg` client that is read: its settings. */
export interface PgClient {
  readonly host: string;
  readonly port: number;
  escapeIdentifier(text: string): string;
}

interface Result {
  readonly rows: Row[];
}

interface PgConnection {
  readonly stream: Stream & { cork?(): void; uncork?(): void; destroy(): unknown };
  /** The text of each statement that the server has prepared, by name. */
  readonly parsedStatements: Readonly<Record<string, string>>;
  parse(message: { name: string; text: string; types: readonly number[] }): void;
  bind(message: { portal: string; statement: string; values: Statement['values']; binary: boolean }): void;
  execute(message: { portal: string; rows: number }): void;
  sync(): void;
}

/** The part that is used of a client that this driver creates. */
interface OwnClient {
  readonly processID: number | null;
  readonly connection?: PgConnection;
  readonly connectionParameters: { query_timeout: unknown };
  connect(): Promise<unknown>;
  end(): Promise<void>;
  /** With a callback, because the promise of `pg` costs more. */
  query(config: object, callback: (error: Error | null, result?: Result | Result[]) => void): unknown;
  query(run: PgPreparedRun): unknown;
  on(event: 'error' | 'end', listener: () => void): unknown;
  on(
    event: 'notification',
    listener: (message: { channel: string; payload?: string | undefined }) => void,
  ): unknown;
}

export type PgClientClass = new (settings: object) => OwnClient;

const asText = (text: string): string => text;
/** Overrides the user's type parsers: all columns are text. */
const TEXT = { getTypeParser: () => asText };

export class PgDriver implements DriverConnection {
  readonly #client: OwnClient;

  constructor(Client: PgClientClass, settings: object, events: DriverEvents) {
    // `pg` keeps passwords in non-enumerable properties, which a spread does not copy.
    const own = Object.defineProperties({}, Object.getOwnPropertyDescriptors(settings));
    const fixed = { types: TEXT, binary: false, pipeline: false, keepAlive: true };
    this.#client = new Client(Object.assign(own, fixed));
    // Here, because that of a URL overrides a setting. Its timers would outlive a `PgPreparedRun`.
    this.#client.connectionParameters.query_timeout = 0;
    this.#client.on('error', () => {
      // `pg` does not always emit `end` after an error.
      events.onClose();
      this.destroy();
    });
    this.#client.on('end', () => events.onClose());
    this.#client.on('notification', ({ channel, payload = '' }) => events.onNotification(channel, payload));
  }

  get processId(): number | null {
    return this.#client.processID;
  }

  async connect(): Promise<void> {
    await this.#client.connect();
  }

  run(statement: Statement): Promise<readonly Row[]> {
    const { text, values, name } = statement;
    return new Promise((resolve, reject) => {
      if (name !== undefined) {
        this.#client.query(new PgPreparedRun(statement, name, resolve, reject));
        return;
      }
      this.#client.query({ text, values, rowMode: 'array' }, (error, result) => {
        if (error != null) reject(error);
        else resolve(result === undefined || Array.isArray(result) ? [] : result.rows);
      });
    });
  }

  setKeepAlive(isKept: boolean): void {
    keepAliveBy(this.#client.connection?.stream, isKept);
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  destroy(): void {
    this.#client.connection?.stream.destroy();
  }
}

/**
 * One run of a prepared statement whose columns are text. Replaces `pg`'s `Query`, which on every run
 * copies its settings, asks the server to describe the columns and builds an object for them. That is
 * half of the client's CPU time for a statement (`npm run bench -- postgres advisory-one`). `pg` calls
 * the methods.
 */
class PgPreparedRun {
  /** `pg` notes in `parsedStatements` that this text was prepared by this name. */
  readonly name: string;
  readonly text: string;
  readonly #values: Statement['values'];
  readonly #rows: Row[] = [];
  readonly #resolve: (rows: readonly Row[]) => void;
  readonly #reject: (error: Error) => void;

  constructor(
    { text, values }: Statement,
    name: string,
    resolve: (rows: readonly Row[]) => void,
    reject: (error: Error) => void,
  ) {
    this.name = name;
    this.text = text;
    this.#values = values;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  submit(connection: PgConnection): void {
    const { name, text } = this;
    const { stream } = connection;
    // One packet instead of four.
    stream.cork?.();
    try {
      if (connection.parsedStatements[name] !== text) connection.parse({ name, text, types: [] });
      connection.bind({ portal: '', statement: name, values: this.#values, binary: false });
      connection.execute({ portal: '', rows: 0 });
      connection.sync();
    } finally {
      stream.uncork?.();
    }
  }

  handleDataRow({ fields }: { readonly fields: Row }): void {
    this.#rows.push(fields);
  }

  handleReadyForQuery(): void {
    this.#resolve(this.#rows);
  }

  handleError(error: Error): void {
    this.#reject(error);
  }

  handleCommandComplete(): void {}
}
