import { wrong } from '../checks.ts';

/** Nothing that would need an escape in HTML or in a header. */
const BASE = /^(?:\/[A-Za-z0-9._~-]+)*$/;

/** `/locks` for `/locks/` and `/locks`; `''` for `/`. Throws `InvalidArgumentError`. */
export function checkBasePath(basePath: string | undefined): string {
  const base = typeof basePath === 'string' ? basePath.replace(/\/+$/, '') : '';
  if (basePath !== undefined && (typeof basePath !== 'string' || !BASE.test(base)))
    throw wrong('basePath', 'a path such as /ops/locks', basePath);
  return base;
}

/** What a framework says it has cut off the path; `''` for anything odd. */
export function basePathIn(given: unknown): string {
  return typeof given === 'string' && BASE.test(given) ? given : '';
}

/** The path below the base. A framework may or may not have cut the base off. */
export function pathBelow(base: string, pathname: string): string {
  const isBelow = base !== '' && (pathname === base || pathname.startsWith(`${base}/`));
  const path = isBelow ? pathname.slice(base.length) : pathname;
  return path === '' ? '/' : path;
}
