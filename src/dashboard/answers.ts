import type { ApiError } from './api.ts';

const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "form-action 'self'",
].join('; ');

const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy': POLICY,
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
};

type Headers = Readonly<Record<string, string>>;

/** Every answer has the security headers. `headers` may replace them. */
export function answer(
  body: string | ReadableStream<Uint8Array> | null,
  contentType: string,
  { status = 200, headers = {} }: { status?: number; headers?: Headers } = {},
): Response {
  return new Response(body, { status, headers: { ...HEADERS, 'content-type': contentType, ...headers } });
}

/** Names, owners and metadata leave the process as JSON only. */
export function json(value: unknown, status = 200, headers: Headers = {}): Response {
  return encodedJson(JSON.stringify(value), status, headers);
}

/** For a text that several answers share. */
export function encodedJson(text: string, status = 200, headers: Headers = {}): Response {
  return answer(text, 'application/json; charset=utf-8', { status, headers });
}

/** A refusal. It is thrown where it is found, and answered in one place. */
export class RefusedError extends Error {
  readonly status: number;
  readonly error: string;
  readonly headers: Headers;

  constructor(status: number, error: string, message: string, headers: Headers = {}) {
    super(message);
    this.status = status;
    this.error = error;
    this.headers = headers;
  }

  get response(): Response {
    const body: ApiError = { error: this.error, message: this.message };
    return json(body, this.status, this.headers);
  }
}

export function badRequest(message: string): RefusedError {
  return new RefusedError(400, 'bad-request', message);
}
