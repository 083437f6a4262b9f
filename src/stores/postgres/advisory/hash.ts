/**
 * `hashtextextended(text, 0)` of PostgreSQL on a little-endian host with a database in UTF-8:
 * Jenkins' lookup3. Computed here, so that the key of a name is known without a round trip. Each
 * session checks that the server computes the same hash for one text.
 */
export function hashText(text: string): bigint {
  const bytes = Buffer.from(text);
  const state = new Uint32Array(3).fill(0x9e3779b9 + bytes.length + 3_923_095);
  let at = 0;
  for (; bytes.length - at >= 12; at += 12) {
    for (let word = 0; word < 3; word += 1) add(state, word, bytes.readUInt32LE(at + word * 4));
    mix(state);
  }
  const rest = bytes.subarray(at);
  for (const [n, byte] of rest.entries()) {
    // The lowest byte of the last word is reserved for the length.
    const offset = n < 8 ? n : n + 1;
    add(state, offset >> 2, byte << ((offset & 3) * 8));
  }
  finish(state);
  const [, high = 0, low = 0] = state;
  return BigInt.asIntN(64, (BigInt(high) << 32n) | BigInt(low));
}

const rotate = (value: number, by: number): number => (value << by) | (value >>> (32 - by));

function add(state: Uint32Array, word: number, value: number): void {
  state[word] = (state[word] ?? 0) + value;
}

/** Each step: the word that changes, the two words that change it, and a rotation in bits. */
const MIX = [
  [0, 2, 1, 4],
  [1, 0, 2, 6],
  [2, 1, 0, 8],
  [0, 2, 1, 16],
  [1, 0, 2, 19],
  [2, 1, 0, 4],
] as const;

function mix(state: Uint32Array): void {
  for (const [to, from, next, by] of MIX) {
    add(state, to, -(state[from] ?? 0));
    state[to] = (state[to] ?? 0) ^ rotate(state[from] ?? 0, by);
    add(state, from, state[next] ?? 0);
  }
}

const FINISH = [
  [2, 1, 14],
  [0, 2, 11],
  [1, 0, 25],
  [2, 1, 16],
  [0, 2, 4],
  [1, 0, 14],
  [2, 1, 24],
] as const;

function finish(state: Uint32Array): void {
  for (const [to, from, by] of FINISH) {
    state[to] = (state[to] ?? 0) ^ (state[from] ?? 0);
    add(state, to, -rotate(state[from] ?? 0, by));
  }
}
