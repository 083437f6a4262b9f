import type { ClaimSummary, Json, LockSummary } from '../../api.ts';
import { modeWords } from '../locks/words.tsx';
import { Detail } from '../parts/detail.tsx';
import { plural } from '../parts/durations.ts';
import { Age, Lease } from '../parts/ticking.tsx';
import { VisibleText } from '../parts/visible-text.tsx';

interface Props {
  readonly lock: LockSummary;
  readonly holders: readonly ClaimSummary[];
  /** `null` for a viewer who may only look. */
  readonly onEvict: ((claim: ClaimSummary) => void) | null;
}

/** More cards than this make the page long and say little: a semaphore may have a thousand holders. */
const SHOWN_MAX = 50;

export function Holders({ lock, holders, onEvict }: Props) {
  return (
    <section aria-labelledby="holders">
      <h2 id="holders">{lock.holderCount === 1 ? 'Holder' : 'Holders'}</h2>
      {holders.length === 0 && (
        <p class="card note">
          {lock.done ? 'The run has finished, and the store remembers it.' : 'Nobody holds it.'}
        </p>
      )}
      <ol class="holders">
        {holders.slice(0, SHOWN_MAX).map((claim) => (
          <Holder key={claim.id} claim={claim} onEvict={onEvict} />
        ))}
      </ol>
      {lock.holderCount > SHOWN_MAX && (
        <p class="muted note">and {plural(lock.holderCount - SHOWN_MAX, 'more holder')}</p>
      )}
    </section>
  );
}

function Holder({ claim, onEvict }: { claim: ClaimSummary; onEvict: Props['onEvict'] }) {
  return (
    <li class="holder card">
      <div class="holder-head">
        <Owner claim={claim} />
        {onEvict !== null && (
          <button type="button" class="button small danger" onClick={() => onEvict(claim)}>
            Evict …<span class="sr-only"> the hold of {claim.owner ?? 'an unknown owner'}</span>
          </button>
        )}
      </div>
      <Lease expiresAtMs={claim.expiresAtMs} leaseMs={claim.leaseMs} />
      <dl class="details">
        <Detail term="Held for">
          <Age sinceMs={claim.heldSinceMs} />
        </Detail>
        <Detail term="Fence" valueClass="mono">
          {claim.fence ?? 'unknown'}
        </Detail>
        <Detail term="Asked for">{modeWords(claim)}</Detail>
        <Detail term="Claim" class="claim" valueClass="mono wrap">
          <VisibleText value={claim.id} />
        </Detail>
        <Metadata metadata={claim.metadata} />
      </dl>
    </li>
  );
}

export function Owner({ claim }: { claim: ClaimSummary }) {
  if (claim.owner === null) return <strong class="muted">Unknown owner</strong>;
  return (
    <strong class="mono wrap">
      <VisibleText value={claim.owner} />
    </strong>
  );
}

export function Metadata({ metadata }: { metadata: ClaimSummary['metadata'] }) {
  const entries: [string, Json][] = Object.entries(metadata ?? {});
  if (entries.length === 0) return null;
  return (
    <Detail term="Metadata" class="wide" valueClass="metadata mono">
      {entries.map(([key, value]) => (
        <span key={key} class="wrap">
          <VisibleText class="muted" value={key} />{' '}
          <VisibleText value={typeof value === 'string' ? value : JSON.stringify(value)} />
        </span>
      ))}
    </Detail>
  );
}
