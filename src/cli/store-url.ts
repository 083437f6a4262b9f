import { mkdirSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';

/** `--store`, else `HOLDFAST_URL`, else a SQLite file in the user's state folder, which is made when it is missing. */
export function storeUrl(option: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  if (option !== undefined && option !== '') return option;
  if (env.HOLDFAST_URL !== undefined && env.HOLDFAST_URL !== '') return env.HOLDFAST_URL;
  const folder = join(stateFolder(env), 'holdfast');
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return `sqlite:${encodeURI(join(folder, 'locks.db')).replace(/[?#]/g, encodeURIComponent)}`;
}

function stateFolder(env: NodeJS.ProcessEnv): string {
  if (env.XDG_STATE_HOME?.startsWith('/')) return env.XDG_STATE_HOME;
  if (process.platform === 'darwin') return join(homedir(), 'Library', 'Application Support');
  return join(homedir(), '.local', 'state');
}

/** The arguments, and of an option with an equals sign what follows it: whatever of them may be a URL. */
export function valuesIn(args: readonly string[]): string[] {
  return args.map((each) => each.replace(/^--[^=]*=/, ''));
}

/** What was given as the store, by `--store URL` or `--store=URL`. What comes after `--` is the command's own. */
export function storesIn(args: readonly string[]): string[] {
  const end = args.indexOf('--');
  const own = end < 0 ? args : args.slice(0, end);
  return valuesIn(own.filter((each, n) => each.startsWith('--store=') || own[n - 1] === '--store'));
}

const SECRET_PARAMETER = /^(.*(?:pass|pwd|secret|token|auth|key).*)$/i;
const HIDDEN = '***';

/** The parts of a URL that nobody should see: what comes before an @, and what is called a password. */
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

/** Takes the secrets of these URLs out of whatever is printed, wherever it came from. The longest go first: one may hold another. */
export function redactor(...urls: (string | undefined)[]): (text: string) => string {
  const secrets = [...new Set(urls.flatMap((url) => secretsIn(url ?? '')))].sort(
    (a, b) => b.length - a.length,
  );
  return (text) => secrets.reduce((result, secret) => result.replaceAll(secret, HIDDEN), text);
}

/** Whether it carries a password, and not just the name of a user. */
export function hasSecret(url: string): boolean {
  return /^[a-z][a-z0-9+.-]*:\/\/[^/?#]*:[^/?#]*@|^[a-z][a-z0-9+.-]*:.*[?&][^=&]*(?:pass|pwd|secret|token)[^=&]*=/i.test(
    url,
  );
}
