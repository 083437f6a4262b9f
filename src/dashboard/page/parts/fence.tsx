const DIGITS = 6;

/** A fence in a list: many are times in microseconds, of which only the last digits differ. */
export function Fence({ fence, word }: { fence: string; word: string }) {
  const shown = fence.length > DIGITS + 2 ? `…${fence.slice(-DIGITS)}` : fence;
  return (
    <span class="mono" title={`${word} ${fence}`}>
      {word} {shown}
    </span>
  );
}
