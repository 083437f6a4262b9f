/** A message to the channel of a process, or to the channel of evictions. */
export type Message =
  | {
      readonly kind: 'granted';
      readonly key: string;
      readonly id: string;
      /** `null`: the claim has to ask whether it holds the lock. */
      readonly grant: { readonly fence: bigint; readonly endsAtServerMs: number } | null;
    }
  /** `mayGrant`: a claim may be granted because of the change. */
  | { readonly kind: 'changed'; readonly key: string; readonly mayGrant: boolean }
  /** A claim further ahead was granted, and may fail to confirm that. */
  | { readonly kind: 'handoff'; readonly key: string }
  | { readonly kind: 'evicted'; readonly key: string; readonly id: string };

const FENCE = /^\d{16}$/;
const TIME = /^\d+$/;

/** The message that tells of an eviction. `key`: the plain key of the lock. */
export const evictionMessage = (key: string, id: string): string => `e\n${key}\n${id}`;

/**
 * Never throws: other programs may publish to the channel too, and an error in an event listener of
 * the client would end the process.
 */
export function messageIn(text: string): Message | null {
  const [kind, key = '', id = '', fence = '', ends = ''] = text.split('\n');
  if (kind === 'g') {
    const isComplete = FENCE.test(fence) && TIME.test(ends);
    const grant = isComplete ? { fence: BigInt(fence), endsAtServerMs: Number(ends) } : null;
    return { kind: 'granted', key, id, grant };
  }
  if (kind === 'e') return { kind: 'evicted', key, id };
  if (kind === 'l') return { kind: 'handoff', key };
  return kind === 'o' || kind === 'h' ? { kind: 'changed', key, mayGrant: kind === 'o' } : null;
}
