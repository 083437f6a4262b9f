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

/** By how many bits each step rotates. From step to step, the three words change their roles in turn. */
const MIX_BITS = [4, 6, 8, 16, 19, 4];
const FINISH_BITS = [14, 11, 25, 16, 4, 14, 24];

function mix(state: Uint32Array): void {
  for (const [step, bits] of MIX_BITS.entries()) {
    const [to, next, from] = [step % 3, (step + 1) % 3, (step + 2) % 3];
    add(state, to, -(state[from] ?? 0));
    state[to] = (state[to] ?? 0) ^ rotate(state[from] ?? 0, bits);
    add(state, from, state[next] ?? 0);
  }
}

function finish(state: Uint32Array): void {
  for (const [step, bits] of FINISH_BITS.entries()) {
    const [to, from] = [(step + 2) % 3, (step + 1) % 3];
    state[to] = (state[to] ?? 0) ^ (state[from] ?? 0);
    add(state, to, -rotate(state[from] ?? 0, bits));
  }
}
