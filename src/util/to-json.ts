/** How deep lists and objects inside a view, an event or an error are converted. */
const DEPTH_MAX = 4;

/**
 * A copy that `JSON.stringify` takes: a bigint becomes decimal text, an error its name, code and
 * message. Objects with a `toJSON` of their own are left as they are.
 */
export function toJson(value: unknown, depth = 0): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null || depth > DEPTH_MAX) return value;
  if (depth > 0 && typeof (value as { toJSON?: unknown }).toJSON === 'function') return value;
  if (value instanceof Error) return errorToJson(value);
  if (Array.isArray(value)) return value.map((item) => toJson(item, depth + 1));
  return fieldsToJson(value, depth);
}

export function fieldsToJson(value: object, depth = 0): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, toJson(field, depth + 1)]));
}

export function errorToJson(error: Error & { readonly code?: unknown }): object {
  const { name, code, message } = error;
  return code === undefined ? { name, message } : { name, code: toJson(code, DEPTH_MAX), message };
}

/** Shared by all objects, because every acquire with a listener creates an event. */
const TO_JSON: PropertyDescriptor = {
  value(this: object) {
    return fieldsToJson(this);
  },
  configurable: true,
};

/** Gives an object a `toJSON` that neither `Object.keys` nor a comparison in a test sees. */
export function withJson<T extends object>(value: T): T {
  return Object.defineProperty(value, 'toJSON', TO_JSON);
}
