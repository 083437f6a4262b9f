import { useCallback, useMemo, useRef, useState } from 'preact/hooks';
import type { ClaimSummary, LockDetail } from '../../api.ts';
import { metadataLine, modeWords } from '../locks/words.tsx';
import { plural } from '../parts/durations.ts';
import { useNarrow } from '../parts/media.ts';
import { Until } from '../parts/ticking.tsx';
import { VirtualRows } from '../parts/virtual-rows.tsx';
import { VisibleText } from '../parts/visible-text.tsx';

/** The part of the queue that is loaded. */
export interface QueueWindow {
  readonly offset: number;
  readonly limit: number;
}

const PART = 100;
const LIMIT = 3 * PART;
/** A scroll that goes on asks for nothing. */
const SETTLE_MS = 60;

/** Which part of the queue to load, and what the rows report when they come into view. */
export function useQueueWindow(): [QueueWindow, (from: number, to: number) => void] {
  const [window, setWindow] = useState<QueueWindow>({ offset: 0, limit: LIMIT });
  const timer = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const onRange = useCallback((from: number) => {
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      const offset = Math.max(0, Math.floor(from / PART) - 1) * PART;
      setWindow((last) => (last.offset === offset ? last : { offset, limit: LIMIT }));
    }, SETTLE_MS);
  }, []);
  return [window, onRange];
}

interface Props {
  readonly detail: LockDetail;
  /** The store keeps a queue, first come, first served. */
  readonly isOrdered: boolean;
  readonly onRange: (from: number, to: number) => void;
  readonly onEvict: ((claim: ClaimSummary) => void) | null;
}

/** The waiters in order. Only the rows in view are loaded and rendered. */
export function Queue({ detail, isOrdered, onRange, onEvict }: Props) {
  const isNarrow = useNarrow();
  const count = detail.lock.waiterCount;
  const positions = useMemo(() => Array.from({ length: count }, (_, n) => n), [count]);
  const columns = (isNarrow ? 2 : 4) + (onEvict === null ? 0 : 1);
  return (
    <section aria-labelledby="queue">
      <h2 id="queue">
        Queue{' '}
        <span class="muted count">
          {isOrdered ? `${plural(count, 'waiter')}, first come, first served` : 'not kept by this store'}
        </span>
      </h2>
      {count === 0 ? (
        <p class="card note">
          {isOrdered ? 'Nobody waits.' : 'Waiters are known to their own processes only.'}
        </p>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a part that scrolls is reached by keyboard.
        <section class="card scroller" aria-label="Waiters in order" tabIndex={0}>
          <table class="queue-table" aria-label="Queue" aria-rowcount={count + 1}>
            <thead>
              <tr aria-rowindex={1}>
                <th scope="col" class="position-column end">
                  #
                </th>
                <th scope="col">Owner</th>
                {!isNarrow && (
                  <th scope="col" class="mode-column">
                    Asks for
                  </th>
                )}
                {!isNarrow && (
                  <th scope="col" class="ends-column end">
                    Position expires in
                  </th>
                )}
                {onEvict !== null && (
                  <th scope="col" class="action-column">
                    <span class="sr-only">Evict</span>
                  </th>
                )}
              </tr>
            </thead>
            <VirtualRows
              items={positions}
              columns={columns}
              onRange={onRange}
              render={(position) => {
                const claim = detail.waiters[position - detail.waiterOffset];
                return <Waiter key={position} {...{ claim, position, isNarrow, onEvict }} />;
              }}
            />
          </table>
        </section>
      )}
    </section>
  );
}

interface WaiterProps {
  readonly claim: ClaimSummary | undefined;
  readonly position: number;
  readonly isNarrow: boolean;
  readonly onEvict: Props['onEvict'];
}

function Waiter({ claim, position, isNarrow, onEvict }: WaiterProps) {
  const metadata = claim === undefined ? '' : metadataLine(claim);
  return (
    <tr data-index={position} aria-rowindex={position + 2}>
      <td class="end number muted">{position + 1}</td>
      <td>
        {claim === undefined ? (
          <span class="muted">loading …</span>
        ) : (
          <>
            <VisibleText class="mono cut" value={claim.owner ?? 'unknown owner'} />
            <span class="second">
              {isNarrow && <Until atMs={claim.expiresAtMs} passed="expired" />}
              {metadata !== '' && <VisibleText class="cut" value={metadata} />}
            </span>
          </>
        )}
      </td>
      {!isNarrow && <td>{claim !== undefined && modeWords(claim)}</td>}
      {!isNarrow && (
        <td class="end">{claim !== undefined && <Until atMs={claim.expiresAtMs} passed="expired" />}</td>
      )}
      {onEvict !== null && (
        <td class="end">
          {claim !== undefined && (
            <button type="button" class="button small danger" onClick={() => onEvict(claim)}>
              Evict …<span class="sr-only"> waiter {position + 1}</span>
            </button>
          )}
        </td>
      )}
    </tr>
  );
}
