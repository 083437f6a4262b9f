import type { ApiError, EvictAnswer, EvictRequest } from '../../api.ts';

/** A request that the server refused, or did not answer (`status` 0). */
export class RequestFailure extends Error {
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

/** Where the dashboard is mounted, as the server says; `''` for the root. */
export const basePath = document.documentElement.dataset.base ?? '';

async function request(path: string, init: RequestInit): Promise<Response> {
  try {
    return await fetch(`${basePath}/${path}`, { credentials: 'same-origin', cache: 'no-store', ...init });
  } catch (error) {
    if (init.signal?.aborted === true) throw error;
    throw new RequestFailure(0, 'The server does not answer.');
  }
}

async function failureOf(response: Response): Promise<RequestFailure> {
  const body: Partial<ApiError> = await response.json().catch(() => ({}));
  return new RequestFailure(
    response.status,
    body.message ?? `The server answered with status ${response.status}.`,
  );
}

export async function getJson<T>(
  path: string,
  query: Record<string, string | number> = {},
  signal?: AbortSignal,
): Promise<T> {
  const parameters = new URLSearchParams(Object.entries(query).map(([key, value]) => [key, `${value}`]));
  const text = parameters.toString();
  const init: RequestInit = signal === undefined ? {} : { signal };
  const response = await request(text === '' ? path : `${path}?${text}`, init);
  if (!response.ok) throw await failureOf(response);
  return response.json();
}

export async function postEvict(body: EvictRequest): Promise<EvictAnswer> {
  const response = await request('api/evict', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  const answer: Partial<EvictAnswer & ApiError> = await response.json().catch(() => ({}));
  if (answer.outcome !== undefined) return { outcome: answer.outcome, holders: answer.holders ?? null };
  throw new RequestFailure(
    response.status,
    answer.message ?? `The server answered with status ${response.status}.`,
  );
}
