/** What a Redis server tells about itself. */

export type Version = readonly [major: number, minor: number];

/** The fields of all sections of a reply to INFO, by name. */
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
  const isBounded = Number(fields.get('maxmemory') ?? 0) > 0;
  return isBounded && policy !== 'noeviction' ? policy : null;
}

/** The fields of a reply that is a map: names and values in turn (RESP2), a Map or an object (RESP3). */
export function fieldsOf(reply: unknown): ReadonlyMap<string, unknown> {
  if (reply instanceof Map) return reply;
  if (!Array.isArray(reply)) return new Map(Object.entries((reply ?? {}) as object));
  const fields = new Map<string, unknown>();
  for (let n = 0; n + 1 < reply.length; n += 2) fields.set(String(reply[n]), reply[n + 1]);
  return fields;
}
