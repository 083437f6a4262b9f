import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { Readable } from 'node:stream';
import type { Clock } from '../clock.ts';
import type { AccessContext } from './access.ts';

/** A client that takes nothing of its answer for so long is disconnected. */
const STALLED_MS = 30_000;

type Answer = (request: Request, context: AccessContext) => Promise<Response>;

/**
 * A name or an address, and a port. Anything else in the `Host` header could add to the path of the
 * URL that is made from it.
 */
const HOST = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

/** A listener for `node:http` that gives each request to a Fetch handler. */
export function nodeListener(clock: Clock, answer: Answer): RequestListener {
  return (incoming, response) => {
    serve(clock, answer, incoming, response).catch(() => {
      // The client is gone, or what it sent is not a request.
      if (response.headersSent) response.destroy();
      else response.writeHead(400).end();
    });
  };
}

async function serve(
  clock: Clock,
  answer: Answer,
  incoming: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const aborted = new AbortController();
  response.once('close', () => aborted.abort());
  const request = requestOf(incoming, aborted.signal);
  await send(clock, await answer(request, { incoming }), request.method, response);
}

function requestOf(incoming: IncomingMessage, signal: AbortSignal): Request {
  const { method = 'GET', headers } = incoming;
  const host = headers.host ?? headers[':authority'] ?? 'localhost';
  if (!HOST.test(`${host}`)) throw new Error('The Host header is not a host');
  const isEncrypted = (incoming.socket as { encrypted?: boolean }).encrypted === true;
  // A path that begins with `//` would be taken for a host.
  const path = (incoming.url ?? '/').replace(/^(?:https?:\/\/[^/]*)?\/*/, '/');
  const url = new URL(`${isEncrypted ? 'https' : 'http'}://${host}${path}`);
  const hasBody = method !== 'GET' && method !== 'HEAD';
  return new Request(url, {
    method,
    headers: headersOf(incoming),
    signal,
    ...(hasBody ? { body: bodyOf(incoming), duplex: 'half' } : {}),
  });
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let n = 0; n + 1 < rawHeaders.length; n += 2) {
    const [name = '', value = ''] = rawHeaders.slice(n, n + 2);
    // Names that begin with a colon are HTTP/2's own.
    if (!name.startsWith(':')) headers.append(name, value);
  }
  return headers;
}

/** A framework may have read and parsed the body already. */
function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array> | string {
  const { body } = incoming as { body?: unknown };
  if (body !== undefined && incoming.readableEnded)
    return typeof body === 'string' ? body : JSON.stringify(body);
  return Readable.toWeb(incoming) as ReadableStream<Uint8Array>;
}

async function send(
  clock: Clock,
  { status, headers, body }: Response,
  method: string,
  response: ServerResponse,
): Promise<void> {
  response.writeHead(status, Object.fromEntries(headers));
  if (body === null || method === 'HEAD') {
    body?.cancel().catch(() => {});
    response.end();
    return;
  }
  response.flushHeaders();
  const reader = body.getReader();
  response.once('close', () => void reader.cancel().catch(() => {}));
  for (;;) {
    const { done, value } = await reader.read();
    if (done || response.destroyed) break;
    if (!response.write(value)) await drained(clock, response);
  }
  response.end();
}

/** Resolves when the client has taken what was written, or is gone. */
function drained(clock: Clock, response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const timer = clock.startTimer(STALLED_MS, () => response.destroy());
    const end = (): void => {
      timer.cancel();
      response.off('drain', end);
      response.off('close', end);
      resolve();
    };
    response.once('drain', end);
    response.once('close', end);
  });
}
