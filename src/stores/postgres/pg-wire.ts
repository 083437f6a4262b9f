import type { Hearing, Row, Statement, Wire } from './wire.ts';

/** What is used of a pool of `pg`: its settings. */
export interface PgPool {
  readonly options: object;
  readonly totalCount: number;
  connect(): Promise<unknown>;
}

/** What is used of a client of `pg`: its settings. */
export interface PgClient {
  readonly host: string;
  readonly port: number;
  escapeIdentifier(text: string): string;
}

interface Result {
  readonly rows: Row[];
}

/** What is used of a client that we made. */
interface OwnClient {
  readonly processID: number | null;
  readonly connection?: { readonly stream?: { destroy(): unknown; ref?(): unknown; unref?(): unknown } };
  connect(): Promise<unknown>;
  end(): Promise<void>;
  /** With a callback: its promise costs more. */
  query(config: object, callback: (error: Error | null, result?: Result | Result[]) => void): unknown;
  on(event: 'error', listener: (error: Error) => void): unknown;
  on(event: 'end', listener: () => void): unknown;
  on(
    event: 'notification',
    listener: (message: { channel: string; payload?: string | undefined }) => void,
  ): unknown;
}

export type PgClientClass = new (settings: object) => OwnClient;

const asText = (text: string): string => text;
/** Whatever the user has set for types: our columns are text. */
const TEXT = { getTypeParser: () => asText };

export class PgWire implements Wire {
  readonly #client: OwnClient;
  readonly #hearing: Hearing;
  #reason: Error | null = null;
  #isEnded = false;

  constructor(Client: PgClientClass, settings: object, hearing: Hearing) {
    this.#hearing = hearing;
    // Passwords are kept where a spread does not find them.
    const own = Object.defineProperties({}, Object.getOwnPropertyDescriptors(settings));
    const fixed = { types: TEXT, binary: false, pipeline: false, keepAlive: true, query_timeout: 0 };
    this.#client = new Client(Object.assign(own, fixed));
    this.#client.on('error', (error) => {
      this.#reason ??= error;
      // What the server says last is not always followed by an end.
      this.#onEnd();
      this.destroy();
    });
    this.#client.on('end', () => this.#onEnd());
    this.#client.on('notification', ({ channel, payload }) => {
      this.#hearing.onNotification(channel, payload ?? '');
    });
  }

  get processId(): number | null {
    return this.#client.processID;
  }

  async connect(): Promise<void> {
    await this.#client.connect();
  }

  run({ text, values, name }: Statement): Promise<readonly Row[]> {
    return new Promise((resolve, reject) => {
      this.#client.query({ text, values, name, rowMode: 'array' }, (error, result) => {
        if (error != null) reject(error);
        else resolve(result === undefined || Array.isArray(result) ? [] : result.rows);
      });
    });
  }

  setKeepAlive(isKept: boolean): void {
    const stream = this.#client.connection?.stream;
    if (isKept) stream?.ref?.();
    else stream?.unref?.();
  }

  async close(): Promise<void> {
    await this.#client.end();
  }

  destroy(): void {
    this.#client.connection?.stream?.destroy();
  }

  #onEnd(): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    this.#hearing.onClose(this.#reason);
  }
}
