import { InvalidArgumentError } from './errors.ts';

/** What JSON can carry unchanged. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject;
/** A plain JSON object, as metadata is. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

const DEPTH_MAX = 32;

/**
 * Encodes metadata, and refuses what JSON would change or loop on: a person who later asks who holds the lock must see what
 * was passed. Only members that are `undefined` are left out, as everywhere in JavaScript. Getters are read once and a `toJSON` is not called, so hostile objects can at worst make this throw.
 */
export function encodeMetadata(metadata: JsonObject, bytesMax: number): string {
  let text: string;
  try {
    if (Array.isArray(metadata) || typeof metadata !== 'object')
      throw new InvalidArgumentError('metadata', 'must be an object');
    text = JSON.stringify(copy(metadata, 0));
  } catch (error) {
    if (error instanceof InvalidArgumentError) throw error;
    throw new InvalidArgumentError('metadata', `could not be read: ${String(error)}`);
  }
  const bytes = Buffer.byteLength(text);
  if (bytes > bytesMax) {
    throw new InvalidArgumentError('metadata', `takes ${bytes} bytes once encoded; ${bytesMax} is the most`);
  }
  return text;
}

function copy(value: unknown, depth: number): JsonValue {
  if (depth > DEPTH_MAX)
    throw new InvalidArgumentError('metadata', `is nested more than ${DEPTH_MAX} deep, or is cyclic`);
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  if (Array.isArray(value)) return value.map((item) => copy(item, depth + 1));
  if (typeof value === 'object' && isPlain(value)) return copyObject(value, depth);
  throw new InvalidArgumentError('metadata', `must be plain JSON; found ${describe(value)}`);
}

function copyObject(value: object, depth: number): JsonObject {
  // A null prototype, so that a key named __proto__ is a key like any other.
  const result: Record<string, JsonValue> = Object.create(null);
  for (const [key, item] of Object.entries(value)) {
    if (item !== undefined) result[key] = copy(item, depth + 1);
  }
  return result;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype || Object.getPrototypeOf(prototype) === null;
}

function describe(value: unknown): string {
  return typeof value === 'object' ? `a ${value?.constructor?.name ?? 'value'}` : `a ${typeof value}`;
}
