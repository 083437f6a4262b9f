/** The fields of a reply that is a map: names and values in turn (RESP2), a Map or an object (RESP3). */
export function fieldsOf(reply: unknown): ReadonlyMap<string, unknown> {
  if (reply instanceof Map) return reply;
  if (!Array.isArray(reply)) return new Map(Object.entries((reply ?? {}) as object));
  const fields = new Map<string, unknown>();
  for (let n = 0; n + 1 < reply.length; n += 2) fields.set(String(reply[n]), reply[n + 1]);
  return fields;
}
