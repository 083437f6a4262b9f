/** Every column as the server writes it: statements of ours select text. */
export type Row = readonly (string | null)[];

export interface Statement {
  readonly text: string;
  readonly values?: readonly (string | null)[] | undefined;
  /** Prepared once under this name, where the connection is direct: behind a pooler, another one may get the next statement. */
  readonly name?: string | undefined;
}

/** What is told of a connection. */
export interface Hearing {
  onNotification(channel: string, payload: string): void;
  /** It has ended, without us. Said once. */
  onClose(reason: Error | null): void;
}

/** One connection of whichever client library. It is made closed, and never comes back. */
export interface Wire {
  /** What the library was told that it is connected to; a pooler gives a number of its own. Known after the first statement. */
  readonly processId: number | null;
  connect(): Promise<void>;
  /** One at a time. Without values, the text may be several statements, and then the result says nothing. */
  run(statement: Statement): Promise<readonly Row[]>;
  setKeepAlive(isKept: boolean): void;
  close(): Promise<void>;
  /** Ends it without a goodbye, at any time. */
  destroy(): void;
}

/** Makes one more connection beside those that the user has, with the same settings. */
export type Dial = (hearing: Hearing) => Wire;
