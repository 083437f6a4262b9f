/** What a Redis server tells about itself, as its reply to INFO. */

export type Version = readonly [major: number, minor: number];

/** The fields of all sections, by name. */
export function fieldsIn(info: string): ReadonlyMap<string, string> {
  const fields = new Map<string, string>();
  for (const line of info.split(/\r?\n/)) {
    const at = line.indexOf(':');
    if (at > 0) fields.set(line.slice(0, at), line.slice(at + 1));
  }
  return fields;
}

/** `null` when the server does not report it. */
export function versionIn(fields: ReadonlyMap<string, string>): Version | null {
  const match = /^(\d+)\.(\d+)/.exec(fields.get('redis_version') ?? '');
  return match === null ? null : [Number(match[1]), Number(match[2])];
}

export function isOlder(version: Version, min: Version): boolean {
  return version[0] < min[0] || (version[0] === min[0] && version[1] < min[1]);
}

/** The policy by which the server evicts keys when its memory is full; `null` when it evicts none. */
export function evictionPolicyIn(fields: ReadonlyMap<string, string>): string | null {
  const policy = fields.get('maxmemory_policy') ?? 'noeviction';
  return isBounded(fields) && policy !== 'noeviction' ? policy : null;
}

function isBounded(fields: ReadonlyMap<string, string>): boolean {
  return Number(fields.get('maxmemory') ?? 0) > 0;
}
