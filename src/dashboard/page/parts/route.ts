import { useEffect, useRef, useState } from 'preact/hooks';

/**
 * The page's own address stands behind the `#`, so that the page works under every base path and a
 * reload or a link comes back to the same view.
 */
export interface Route {
  readonly page: string;
  readonly query: URLSearchParams;
}

export function routeOf(hash: string): Route {
  const [page = '', query = ''] = hash.replace(/^#\/?/, '').split(/\?(.*)/s);
  return { page: page === '' ? 'locks' : page, query: new URLSearchParams(query) };
}

export function hashOf(page: string, query: Record<string, string> = {}): string {
  const set = Object.entries(query).filter(([, value]) => value !== '');
  const text = new URLSearchParams(set).toString();
  return `#/${page}${text === '' ? '' : `?${text}`}`;
}

/** Browsers refuse to change the address more often than some 100 times in 30 s. */
const WRITES_APART_MS = 350;
let writtenAtMs = Number.NEGATIVE_INFINITY;

function writeHash(hash: string): void {
  writtenAtMs = performance.now();
  history.replaceState(null, '', hash);
}

/**
 * Keeps the address up to date without adding to the history, and without an event: the page already
 * shows what the address says.
 */
export function useWrittenHash(hash: string): void {
  const isFirst = useRef(true);
  useEffect(() => {
    if (isFirst.current) {
      isFirst.current = false;
      return;
    }
    const waitMs = writtenAtMs + WRITES_APART_MS - performance.now();
    if (waitMs <= 0) {
      writeHash(hash);
      return;
    }
    const timer = setTimeout(() => writeHash(hash), waitMs);
    return () => clearTimeout(timer);
  }, [hash]);
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => routeOf(location.hash));
  useEffect(() => {
    const update = () => setRoute(routeOf(location.hash));
    window.addEventListener('hashchange', update);
    return () => window.removeEventListener('hashchange', update);
  }, []);
  return route;
}
