/** Every statement selects columns of type text. */
export type Row = readonly (string | null)[];

export interface Statement {
  readonly text: string;
  readonly values?: readonly (string | null)[] | undefined;
  /** The statement is prepared under this name, unless there may be a pooler. */
  readonly name?: string | undefined;
}

/** What a connection reports. */
export interface DriverEvents {
  onNotification(channel: string, payload: string): void;
  /** The connection has ended. It may be called again, and after `close` or `destroy`. */
  onClose(): void;
}

/** One connection of a client library. It is opened once, and never reconnects. */
export interface DriverConnection {
  /**
   * The id of the server process, as the library received it. A pooler sends a number of its own.
   * Known after the first statement.
   */
  readonly processId: number | null;
  connect(): Promise<void>;
  /** One at a time. Without values, the text may have several statements; ignore the result then. */
  run(statement: Statement): Promise<readonly Row[]>;
  setKeepAlive(isKept: boolean): void;
  close(): Promise<void>;
  /** Ends the connection at once, without a message to the server. */
  destroy(): void;
}

/** Creates a connection with the settings of the user's pool or URL. */
export type ConnectionFactory = (events: DriverEvents) => DriverConnection;
