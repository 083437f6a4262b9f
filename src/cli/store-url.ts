import { mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { isAbsolute, join } from 'node:path';
import { StoreError } from '../errors.ts';

/**
 * `--store`, else `HOLDFAST_URL`, else a SQLite file in the user's state folder, which is created
 * when it is missing.
 */
export function storeUrl(option: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  if (option !== undefined && option !== '') return option;
  if (env.HOLDFAST_URL !== undefined && env.HOLDFAST_URL !== '') return env.HOLDFAST_URL;
  const folder = makeFolder(env);
  return `sqlite:${encodeURI(join(folder, 'locks.db')).replace(/[?#]/g, encodeURIComponent)}`;
}

/** Whether neither the arguments nor the environment name a store. */
export function isDefaultStore(args: readonly string[], env: NodeJS.ProcessEnv = process.env): boolean {
  return storesIn(args).length === 0 && (env.HOLDFAST_URL ?? '') === '';
}

/**
 * The SQLite file of this user; `null` when the option or the environment names a store. Creates
 * nothing.
 */
export function defaultStoreFile(
  option: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
): string | null {
  if ((option ?? '') !== '' || (env.HOLDFAST_URL ?? '') !== '') return null;
  return join(stateFolder(env), 'holdfast', 'locks.db');
}

function makeFolder(env: NodeJS.ProcessEnv): string {
  try {
    const folder = join(stateFolder(env), 'holdfast');
    mkdirSync(folder, { recursive: true, mode: 0o700 });
    return folder;
  } catch (cause) {
    // A user without a home folder, or one that this process may not write to.
    const reason = cause instanceof Error ? cause.message : String(cause);
    throw new StoreError(`there is no folder for the locks of this user: ${reason}`, {
      cause,
      applied: 'no',
    });
  }
}

function stateFolder(env: NodeJS.ProcessEnv): string {
  if (env.XDG_STATE_HOME?.startsWith('/')) return env.XDG_STATE_HOME;
  const home = homedir();
  if (!isAbsolute(home)) throw new Error('HOME is empty');
  if (process.platform === 'darwin') return join(home, 'Library', 'Application Support');
  return join(home, '.local', 'state');
}

/** All arguments that may be a URL, also the value of an option with an equals sign. */
export function valuesIn(args: readonly string[]): string[] {
  return args.map((each) => each.replace(/^--[^=]*=/, ''));
}

/**
 * The value of `--store URL` or `--store=URL`. Arguments after `--` belong to the command.
 */
export function storesIn(args: readonly string[]): string[] {
  const end = args.indexOf('--');
  const own = end < 0 ? args : args.slice(0, end);
  return valuesIn(own.filter((each, n) => each.startsWith('--store=') || own[n - 1] === '--store'));
}

const SECRET_PARAMETER = /^(.*(?:pass|pwd|secret|token|auth|key).*)$/i;
const HIDDEN = '***';

/**
 * The secret parts of a URL: what comes before an @, and parameters whose names suggest a secret.
 */
function secretsIn(url: string): string[] {
  const secrets: string[] = [];
  const userInfo = /^[a-z][a-z0-9+.-]*:\/\/([^/?#]*)@/i.exec(url)?.[1];
  if (userInfo !== undefined) {
    const colon = userInfo.indexOf(':');
    secrets.push(userInfo, ...(colon < 0 ? [] : [userInfo.slice(colon + 1)]));
  }
  for (const [key, value] of new URLSearchParams(url.split('?')[1] ?? '')) {
    if (SECRET_PARAMETER.test(key)) secrets.push(value, encodeURIComponent(value));
  }
  return [...secrets, ...secrets.map(decoded)].filter((secret) => secret !== '');
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * Removes the secrets of these URLs from any text. The longest go first: one may contain another.
 */
export function redactor(...urls: (string | undefined)[]): (text: string) => string {
  const secrets = [...new Set(urls.flatMap((url) => secretsIn(url ?? '')))].sort(
    (a, b) => b.length - a.length,
  );
  return (text) => secrets.reduce((result, secret) => result.replaceAll(secret, HIDDEN), text);
}

const USER_PASSWORD = /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*:[^/?#]*@/i;
const PASSWORD_PARAMETER = /^[a-z][a-z0-9+.-]*:.*[?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=/i;

/** Whether the URL has a password, and not just the name of a user. */
export function hasSecret(url: string): boolean {
  return USER_PASSWORD.test(url) || PASSWORD_PARAMETER.test(url);
}
