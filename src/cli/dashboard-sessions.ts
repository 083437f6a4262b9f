import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { RequestListener, ServerResponse } from 'node:http';
import type { Access, AccessRole, Caller } from '../dashboard/access.ts';

/** How long a printed URL can open a session. */
const TOKEN_MS = 10 * 60_000;
const SESSION_MS = 12 * 3_600_000;
/** A new session beyond this ends the oldest. */
const SESSIONS_MAX = 50;

const EXPLAINED = `This link has been used, or is too old.

Press Enter in the terminal in which "holdfast dashboard" runs: it prints a new one.
If you have followed a link from another page, reload this page.
`;

const HEADERS = {
  'cache-control': 'no-store',
  'content-security-policy':
    "default-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'",
  'content-type': 'text/plain; charset=utf-8',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
};

interface Session {
  readonly number: number;
  readonly endsAtMs: number;
}

/**
 * Tokens are compared, and kept, as digests: the time of a comparison says nothing about the token.
 */
function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

/**
 * Who may use the dashboard of the command line. A printed URL has a token that opens one session,
 * once. The session is a cookie that scripts cannot read and other sites cannot send.
 */
export class DashboardSessions {
  readonly #role: AccessRole;
  readonly #programToken: Buffer | null;
  /** By the hexadecimal digest of the cookie. */
  readonly #sessions = new Map<string, Session>();
  #urlToken: { readonly digest: Buffer; readonly endsAtMs: number } | null = null;
  #opened = 0;

  /** `role`: of sessions. `programToken`: the Bearer token of programs, which may read. */
  constructor(role: AccessRole, programToken: string | null) {
    this.#role = role;
    this.#programToken = programToken === null ? null : digest(programToken);
  }

  /** A token for a new URL. The URL that was printed before stops working. */
  newToken(): string {
    const token = randomBytes(32).toString('base64url');
    this.#urlToken = { digest: digest(token), endsAtMs: Date.now() + TOKEN_MS };
    return token;
  }

  access(port: number): Access {
    return ({ headers }): Caller => {
      const authorization = headers.get('authorization');
      // A program is identified by its token alone, and never by a cookie.
      if (authorization !== null)
        return this.#isProgram(authorization) ? { role: 'read', who: 'program' } : { role: 'none' };
      const session = this.#sessionIn(headers.get('cookie') ?? '', port);
      return session === null ? { role: 'none' } : { role: this.#role, who: `session ${session.number}` };
    };
  }

  /** Exchanges the token of a URL for a session, and passes everything else on. */
  listener(port: number, next: RequestListener): RequestListener {
    return (incoming, response) => {
      const { method, url = '/', headers } = incoming;
      const isPage = method === 'GET' && (url === '/' || url.startsWith('/?'));
      if (!isPage || headers.authorization !== undefined) {
        next(incoming, response);
        return;
      }
      const token = new URLSearchParams(url.slice(2)).get('token');
      if (token !== null) this.#exchange(token, port, headers['x-forwarded-proto'] === 'https', response);
      else if (this.#sessionIn(headers.cookie ?? '', port) === null) explain(response);
      else next(incoming, response);
    };
  }

  /** `isEncrypted`: a proxy in front says that the browser's connection is. */
  #exchange(token: string, port: number, isEncrypted: boolean, response: ServerResponse): void {
    const expected = this.#urlToken;
    const isRight = expected !== null && timingSafeEqual(digest(token), expected.digest);
    if (!isRight || Date.now() > expected.endsAtMs) {
      explain(response);
      return;
    }
    this.#urlToken = null;
    const cookie = randomBytes(32).toString('base64url');
    this.#opened += 1;
    const session = { number: this.#opened, endsAtMs: Date.now() + SESSION_MS };
    this.#sessions.set(digest(cookie).toString('hex'), session);
    for (const oldest of this.#sessions.keys()) {
      if (this.#sessions.size <= SESSIONS_MAX) break;
      this.#sessions.delete(oldest);
    }
    const secure = isEncrypted ? '; Secure' : '';
    const attributes = `Path=/; HttpOnly; SameSite=Strict; Max-Age=${SESSION_MS / 1_000}${secure}`;
    // The browser is redirected to an address without the token, which is then not in its history.
    response.writeHead(303, {
      ...HEADERS,
      location: '/',
      'set-cookie': `${cookieName(port)}=${cookie}; ${attributes}`,
    });
    response.end();
  }

  #isProgram(authorization: string): boolean {
    const token = /^Bearer (.+)$/.exec(authorization)?.[1];
    if (this.#programToken === null || token === undefined) return false;
    return timingSafeEqual(digest(token), this.#programToken);
  }

  #sessionIn(cookies: string, port: number): Session | null {
    const prefix = `${cookieName(port)}=`;
    const found = cookies.split('; ').find((cookie) => cookie.startsWith(prefix));
    if (found === undefined) return null;
    // Looked up by its digest, which no caller can choose byte by byte.
    const key = digest(found.slice(prefix.length)).toString('hex');
    const session = this.#sessions.get(key);
    if (session === undefined || Date.now() < session.endsAtMs) return session ?? null;
    this.#sessions.delete(key);
    return null;
  }
}

/** Browsers send cookies to every port of a host: the port keeps two dashboards apart. */
function cookieName(port: number): string {
  return `holdfast_dashboard_${port}`;
}

function explain(response: ServerResponse): void {
  response.writeHead(401, HEADERS).end(EXPLAINED);
}
