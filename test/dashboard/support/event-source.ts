/** One server-sent event. */
export interface ServerEvent {
  readonly event: string;
  readonly data: unknown;
}

/** Reads the events of a stream. Comments come as the event `comment`. */
export class EventReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  #text = '';

  constructor(body: ReadableStream<Uint8Array> | null) {
    if (body === null) throw new Error('The answer has no body');
    this.#reader = body.getReader();
  }

  /** The next event; `null` at the end of the stream. */
  async next(): Promise<ServerEvent | null> {
    for (;;) {
      const end = this.#text.indexOf('\n\n');
      if (end !== -1) {
        const block = this.#text.slice(0, end);
        this.#text = this.#text.slice(end + 2);
        return parse(block);
      }
      const { done, value } = await this.#reader.read();
      if (done) return null;
      this.#text += this.#decoder.decode(value, { stream: true });
    }
  }

  /** Skips events until one is as wanted. */
  async until<T>(event: string, isWanted: (data: T) => boolean = () => true): Promise<T> {
    for (;;) {
      const next = await this.next();
      if (next === null) throw new Error(`the stream ended before ${event}`);
      if (next.event === event && isWanted(next.data as T)) return next.data as T;
    }
  }

  async close(): Promise<void> {
    await this.#reader.cancel().catch(() => {});
  }
}

function parse(block: string): ServerEvent {
  if (block.startsWith(':')) return { event: 'comment', data: block.slice(1).trim() };
  const fields = new Map(block.split('\n').map((line) => line.split(/: (.*)/s) as [string, string]));
  return { event: fields.get('event') ?? 'message', data: JSON.parse(fields.get('data') ?? 'null') };
}
