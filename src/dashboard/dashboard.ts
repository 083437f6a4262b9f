import type { RequestListener } from 'node:http';
import { checkKeys, checkType, wrong } from '../checks.ts';
import { InvalidArgumentError } from '../errors.ts';
import { warnOf } from '../events.ts';
import { coreOf, type Locks } from '../locks.ts';
import { type Access, type AccessContext, admit } from './access.ts';
import { json, RefusedError } from './answers.ts';
import type { ApiError } from './api.ts';
import { ApiRoutes } from './api-routes.ts';
import { basePathIn, checkBasePath, pathBelow } from './base-path.ts';
import { failureCode } from './failure-code.ts';
import { nodeListener } from './node-listener.ts';
import { pageAsset, pageHtml } from './page.ts';
import { arrivalOf, checkHost, checkSite } from './request-checks.ts';

/** Who may see the dashboard, and where it is. */
export interface DashboardOptions {
  /**
   * Asked for every request, before anything is answered. Required: there is no dashboard without
   * it. When it throws, the request is refused.
   */
  readonly access: Access;
  /**
   * The path under which browsers see the dashboard, as `/ops/locks`. It works whether or not a
   * framework cuts this path off. Unless set: what Express says it has cut off, else `/`.
   */
  readonly basePath?: string | undefined;
  /**
   * The host names, with or without a port, to which the dashboard answers. Unless set: on a
   * loopback address only loopback names and IP addresses, elsewhere every name. Requests for other
   * names are refused, against DNS rebinding. `fetch` is not told the address: there, set `hosts`.
   */
  readonly hosts?: readonly string[] | undefined;
}

/** A page, a JSON API and Prometheus metrics for the locks of one store. */
export interface Dashboard {
  /** For frameworks that take the Fetch API. Never rejects, and needs no `this`. */
  fetch(request: Request): Promise<Response>;
  /** For `node:http`, Express and others. Needs no `this`. */
  readonly listener: RequestListener;
  /** Ends every event stream and every listener. The Locks stays open. Later requests get a 503. */
  close(): Promise<void>;
}

/** Throws `InvalidArgumentError` without `access`, and for a bad option. */
export function createDashboard(locks: Locks, options: DashboardOptions): Dashboard {
  return new LocksDashboard(locks, options);
}

class LocksDashboard implements Dashboard {
  readonly fetch: Dashboard['fetch'];
  readonly listener: RequestListener;
  readonly #access: Access;
  readonly #basePath: string | null;
  readonly #hosts: readonly string[] | null;
  readonly #api: ApiRoutes;
  #isClosed = false;

  constructor(locks: Locks, options: DashboardOptions) {
    const core = coreOf(locks);
    checkKeys(options ?? {}, ['access', 'basePath', 'hosts']);
    if (options?.access === undefined)
      throw new InvalidArgumentError(
        'access',
        'is missing: a dashboard needs a function that says who may do what',
      );
    this.#access = checkType('access', options.access, 'function');
    this.#basePath = options.basePath === undefined ? null : checkBasePath(options.basePath);
    this.#hosts = checkHosts(options.hosts);
    this.#api = new ApiRoutes(core, locks);
    this.fetch = (request) => this.#answer(request, {});
    this.listener = nodeListener(core.clock, (request, context) => this.#answer(request, context));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#api.close();
  }

  async #answer(request: Request, context: AccessContext): Promise<Response> {
    try {
      return await this.#route(request, context);
    } catch (error) {
      return failureAnswer(error);
    }
  }

  async #route(request: Request, context: AccessContext): Promise<Response> {
    if (this.#isClosed) throw new RefusedError(503, 'closed', 'The dashboard is closed.');
    const { incoming } = context;
    const base = this.#basePath ?? basePathIn((incoming as { baseUrl?: unknown } | undefined)?.baseUrl);
    const url = new URL(request.url);
    const path = pathBelow(base, url.pathname);
    const arrival = arrivalOf(request, incoming?.socket.localAddress);
    checkHost(arrival, this.#hosts);
    if (path.startsWith('/api/') || path === '/metrics') checkSite(request, arrival);
    const caller = await admit(this.#access, request, context);
    if (path === '/' || path.startsWith('/assets/')) {
      if (request.method !== 'GET' && request.method !== 'HEAD') throw notAllowed('GET, HEAD');
      return path === '/' ? pageHtml(base) : pageAsset(path.slice('/assets/'.length), request);
    }
    const handler = this.#api.routes.get(`${request.method} ${path}`);
    if (handler !== undefined) return await handler({ request, query: url.searchParams, caller });
    const other = ['GET', 'POST'].find((method) => this.#api.routes.has(`${method} ${path}`));
    if (other !== undefined) throw notAllowed(other);
    throw new RefusedError(404, 'not-found', 'There is nothing at this path.');
  }
}

/** What is answered to an error. Only refusals are explained: other messages may contain addresses. */
function failureAnswer(error: unknown): Response {
  if (error instanceof RefusedError) return error.response;
  const code = failureCode(error);
  if (code !== null) {
    const body: ApiError = { error: 'store', message: `The store failed: ${code}.` };
    return json(body, 503);
  }
  warnOf('a request of the dashboard', error);
  const body: ApiError = { error: 'internal', message: 'The dashboard failed.' };
  return json(body, 500);
}

function notAllowed(allow: string): RefusedError {
  return new RefusedError(405, 'method', `Only ${allow}.`, { allow });
}

function checkHosts(hosts: readonly string[] | undefined): readonly string[] | null {
  if (hosts === undefined) return null;
  const isRight = Array.isArray(hosts) && hosts.every((host) => typeof host === 'string' && host !== '');
  if (!isRight) throw wrong('hosts', 'a list of host names', hosts);
  return hosts.map((host) => host.toLowerCase());
}
