import { useEffect, useRef } from 'preact/hooks';
import type { ClaimSummary, EvictOutcome } from '../../api.ts';
import { VisibleText } from '../parts/visible-text.tsx';

/** `refused`: the server did not try, and `message` says why. */
export interface Outcome {
  readonly outcome: EvictOutcome | 'refused';
  readonly holders: readonly ClaimSummary[] | null;
  readonly message?: string;
}

const TITLES: Readonly<Record<Outcome['outcome'], string>> = {
  evicted: 'Evicted.',
  gone: 'Already gone. Nothing was taken away.',
  changed: 'Not evicted: the claim has changed since it was shown.',
  unsupported: 'Not evicted: this store cannot take away the claim of another program.',
  failed: 'Unknown: the store did not answer. The claim may or may not be gone.',
  refused: 'Not evicted.',
};

const LOOKS: Readonly<Record<Outcome['outcome'], string>> = {
  evicted: 'good',
  gone: '',
  changed: '',
  unsupported: 'bad',
  failed: 'bad',
  refused: 'bad',
};

export function Result({ outcome, onClose }: { outcome: Outcome; onClose: () => void }) {
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => button.current?.focus(), []);
  return (
    <>
      <div class={`banner ${LOOKS[outcome.outcome]}`} role="alert">
        <div>
          <strong>{TITLES[outcome.outcome]}</strong> {outcome.message}
          <Now holders={outcome.holders} />
        </div>
      </div>
      <div class="buttons">
        <button ref={button} type="button" class="button" onClick={onClose}>
          Close
        </button>
      </div>
    </>
  );
}

/** Who has the lock now. */
function Now({ holders }: { holders: Outcome['holders'] }) {
  if (holders === null) return null;
  const [first] = holders;
  if (first === undefined) return <p>The lock is free now.</p>;
  return (
    <p class="wrap">
      Now held by <VisibleText class="mono" value={first.owner ?? 'an unknown owner'} />
      {first.fence !== null && (
        <>
          , fence <span class="mono">{first.fence}</span>
        </>
      )}
      {holders.length > 1 && ` and ${holders.length - 1} more`}.
    </p>
  );
}
