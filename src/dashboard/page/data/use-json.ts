import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { syncClock } from '../parts/ticker.ts';
import { getJson, RequestFailure } from './client.ts';

export interface Loaded<T> {
  readonly data: T | null;
  readonly failure: RequestFailure | null;
  reload(): void;
}

/**
 * Reads a resource of the API now, every `everyMs`, and when asked to. The last answer stays while
 * the next is awaited. A hidden page does not ask.
 */
export function useJson<T extends object>(
  path: string,
  query: Record<string, string | number>,
  everyMs: number,
): Loaded<T> {
  const [state, setState] = useState<{ data: T | null; failure: RequestFailure | null }>({
    data: null,
    failure: null,
  });
  const key = `${path} ${JSON.stringify(query)}`;
  const latest = useRef({ path, query, key });
  latest.current = { path, query, key };
  const reading = useRef<AbortController | null>(null);
  const reload = useCallback(() => {
    reading.current?.abort();
    const abort = new AbortController();
    reading.current = abort;
    const asked = latest.current;
    getJson<T>(asked.path, asked.query, abort.signal).then(
      (data) => {
        if (abort.signal.aborted) return;
        if ('takenAtMs' in data && typeof data.takenAtMs === 'number') syncClock(data.takenAtMs);
        setState({ data, failure: null });
      },
      (error: unknown) => {
        if (abort.signal.aborted) return;
        const failure = error instanceof RequestFailure ? error : new RequestFailure(0, `${error}`);
        setState((last) => ({ data: last.data, failure }));
      },
    );
  }, []);
  // Another key is another resource.
  useEffect(() => {
    reload();
    const timer = setInterval(() => {
      if (!document.hidden) reload();
    }, everyMs);
    return () => {
      clearInterval(timer);
      reading.current?.abort();
    };
  }, [key, everyMs, reload]);
  return { ...state, reload };
}
