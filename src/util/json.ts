import { wrong } from '../checks.ts';

/** What JSON can carry unchanged. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;
/** A plain JSON object, as metadata is. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

const DEPTH_MAX = 32;
const BYTES_MAX = 4_096;

/**
 * Encodes metadata, and refuses what JSON would change or loop on: a person who inspects
 * the lock later must see what was passed. Only members that are `undefined` are left out, as
 * everywhere in JavaScript. Getters are read once and a `toJSON` is not called, so hostile objects
 * can at worst make this throw.
 */
export function encodeMetadata(metadata: JsonObject): string {
  try {
    const text = JSON.stringify(copy(metadata, 0));
    const bytes = Buffer.byteLength(text);
    if (text[0] === '{' && bytes <= BYTES_MAX) return text;
    throw new Error(`${bytes} bytes: ${text}`);
  } catch (error) {
    // A getter may throw any text: it is shown quoted and shortened, as all input is.
    throw wrong('metadata', `a plain JSON object of at most ${BYTES_MAX} bytes`, (error as Error)?.message);
  }
}

function copy(value: unknown, depth: number): JsonValue {
  if (depth > DEPTH_MAX) throw new Error('too many levels');
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (Number.isFinite(value)) return value as number;
  if (Array.isArray(value)) return Array.from(value, (item) => copy(item, depth + 1));
  if (typeof value !== 'object') throw new Error(`a ${typeof value}`);
  // `Object.prototype` of another realm is not ours, but it has no prototype either.
  const prototype = Object.getPrototypeOf(value);
  if (prototype !== null && Object.getPrototypeOf(prototype) !== null)
    throw new Error(`a ${prototype.constructor?.name}`);
  // A null prototype, so that a key named __proto__ is a key like any other.
  const result: Record<string, JsonValue> = Object.create(null);
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined) result[key] = copy(item, depth + 1);
  }
  return result;
}
