import type { Clock } from '../clock.ts';
import { pause } from '../util/backoff.ts';
import { badRequest, RefusedError } from './answers.ts';

const BYTES_MAX = 65_536;
/** A client that sends slower than this is given up. */
const BODY_MS = 10_000;

/** The JSON body of a request: at most 64 KiB, within 10 s. */
export async function jsonBody(request: Request, clock: Clock): Promise<Readonly<Record<string, unknown>>> {
  const type = request.headers.get('content-type') ?? '';
  // A form of another site cannot have this type, and a script of another site must ask first.
  if (!/^application\/json\s*(;|$)/i.test(type))
    throw new RefusedError(415, 'content-type', 'The content type must be application/json.');
  const value = parsed(await boundedText(request, clock));
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    throw badRequest('The body must be a JSON object.');
  return value as Readonly<Record<string, unknown>>;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw badRequest('The body is not JSON.');
  }
}

async function boundedText(request: Request, clock: Clock): Promise<string> {
  if (request.body === null) throw badRequest('The body is missing.');
  if (Number(request.headers.get('content-length') ?? 0) > BYTES_MAX) throw tooLarge();
  const reader = request.body.getReader();
  const ended = new AbortController();
  const late = pause(clock, BODY_MS, { signal: ended.signal }).then(() => null);
  const chunks: Uint8Array[] = [];
  try {
    for (let bytes = 0; ; ) {
      const next = await Promise.race([reader.read(), late]);
      if (next === null) throw new RefusedError(408, 'timeout', 'The body did not arrive in time.');
      if (next.done) return Buffer.concat(chunks).toString('utf8');
      bytes += next.value.byteLength;
      if (bytes > BYTES_MAX) throw tooLarge();
      chunks.push(next.value);
    }
  } finally {
    ended.abort();
    reader.cancel().catch(() => {});
  }
}

function tooLarge(): RefusedError {
  return new RefusedError(413, 'too-large', 'The body must have at most 64 KiB.');
}
