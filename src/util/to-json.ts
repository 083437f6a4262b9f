import { types } from 'node:util';

/** How deep lists and objects inside a view, an event or an error are converted one by one. */
const DEPTH_MAX = 4;
/** In the place of what JSON cannot carry: a cycle, a deep bigint, a getter that throws. */
const UNREADABLE = '[not convertible to JSON]';

/**
 * A copy that `JSON.stringify` takes, whatever the value is: an event may carry the reason with which
 * a user aborted a wait. A bigint becomes decimal text, an error its name, code and message.
 */
export function toJson(value: unknown, depth = 0): unknown {
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return value;
  try {
    if (depth > 0 && typeof (value as { toJSON?: unknown }).toJSON === 'function') return parsed(value);
    if (isError(value)) return errorToJson(value);
    if (depth > DEPTH_MAX) return parsed(value);
    if (Array.isArray(value)) return value.map((item) => toJson(item, depth + 1));
    return fieldsToJson(value, depth);
  } catch {
    return UNREADABLE;
  }
}

export function fieldsToJson(value: object, depth = 0): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).map(([key, field]) => [key, toJson(field, depth + 1)]));
}

export function errorToJson(error: Error & { readonly code?: unknown }): object {
  const { name, code, message } = error;
  const shown = code === undefined ? {} : { code: toJson(code, DEPTH_MAX) };
  return { name: toJson(name, DEPTH_MAX), ...shown, message: toJson(message, DEPTH_MAX) };
}

/** Also an error of another realm, as the test environments of Jest have them. */
export function isError(value: unknown): value is Error {
  return value instanceof Error || types.isNativeError(value);
}

/** What is left of the value in JSON. Throws when it cannot be converted as it is. */
function parsed(value: object): unknown {
  const text = JSON.stringify(value) as string | undefined;
  return text === undefined ? undefined : JSON.parse(text);
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
