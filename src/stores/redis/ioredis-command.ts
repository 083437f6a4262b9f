/** What is used of a command of the client's own class. */
interface Command {
  args: string[];
  toWritable(stream: object): string | Buffer;
}

type CommandClass = new (name: string, args: string[], options: { replyEncoding: string }) => Command;

interface Client {
  call(command: string, args: string[]): Promise<unknown>;
  readonly options: {
    readonly keyPrefix?: string | undefined;
    readonly showFriendlyErrorStack?: boolean | undefined;
    readonly enableAutoPipelining?: boolean | undefined;
  };
}

/** What a command of the client's own class is sent with. */
interface Sender {
  sendCommand(command: Command): Promise<unknown>;
}

export type Send = (name: string, args: string[]) => Promise<unknown>;

const NO_ARGS: string[] = [];
const AS_TEXT = { replyEncoding: 'utf8' };

/**
 * How to send through this client. Its `call` looks through all arguments and copies them, twice, for what ours never are: lists, numbers, buffers. And what it writes is a
 * text, which the socket encodes letter by letter. A command of ours gets its arguments after it was made, and becomes bytes at once where it can. Where `call` has more to do, or the client's commands are not as we know them, it is left to `call`.
 */
export function senderOf(client: Client): Send {
  const { keyPrefix = '', showFriendlyErrorStack, enableAutoPipelining } = client.options;
  const { Command } = client.constructor as { readonly Command?: CommandClass };
  const isPlain = keyPrefix === '' && !showFriendlyErrorStack && !enableAutoPipelining;
  const sender = client as Client & Partial<Sender>;
  if (!isPlain || !isSender(sender) || typeof Command?.prototype?.toWritable !== 'function')
    return (name, args) => client.call(name, args);
  class Call extends Command {
    override toWritable(stream: object): string | Buffer {
      return bytesOf(this) ?? super.toWritable(stream);
    }
  }
  return (name, args) => {
    const call = new Call(name, NO_ARGS, AS_TEXT);
    call.args = args;
    return sender.sendCommand(call);
  };
}

function isSender<C extends object>(client: C & Partial<Sender>): client is C & Sender {
  return typeof client.sendCommand === 'function';
}

/** The command as Redis reads it; `null` where a letter takes more than one byte. */
function bytesOf({
  name,
  args,
}: {
  readonly name?: string;
  readonly args: readonly string[];
}): Buffer | null {
  let text = `*${args.length + 1}${textOf(`${name}`)}`;
  for (const arg of args) text += textOf(arg);
  text += '\r\n';
  return Buffer.byteLength(text) === text.length ? Buffer.from(text, 'latin1') : null;
}

function textOf(arg: string): string {
  return `\r\n$${arg.length}\r\n${arg}`;
}
